//! A model of a Hugging Face folder's form as a new file: metadata, and which tensors make each of the file's.

use std::collections::BTreeMap;
use std::path::Path;

use serde_json::Value as Json;

use super::GgufModel;
use super::describe::{Described, describe};
use super::family::{Family, Order, Stored, stored};
use crate::Result;
use crate::error::{GgufError, shown};
use crate::gguf::Gguf;
use crate::kind::BlockKind;
use crate::metadata::Metadata;
use crate::quantise::quantise;
use crate::recipe::{Recipe, RecipeModel, is_kept};
use crate::writer::{NewTensor, to_gguf, write_gguf};

const OP: &str = "NewModel::of";
/// The tensor of the factors that divide rotary frequencies.
pub(super) const FACTORS: &str = "rope_freqs.weight";

/// How the matrices of a new file are stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NewKinds {
    /// As floats, of 16 or 32 bits. Vectors, positions and the routers of experts are F32.
    Floats(BlockKind),
    /// In blocks, by a recipe.
    Recipe(Recipe),
}

/// A model that is to be written as a file.
#[derive(Clone, Debug)]
pub struct NewModel {
    metadata: Metadata,
    tensors: Vec<NewTensor>,
    sources: Vec<Source>,
}

/// What a tensor of the file is made of.
#[derive(Clone, Debug)]
enum Source {
    Factors(Vec<f32>),
    Tensors(Parts),
}

/// Tensors of a Hugging Face folder, one or those of all experts, and what is done with their values.
#[derive(Clone, Debug, Default)]
struct Parts {
    names: Vec<String>,
    interleaved_heads: usize,
    transposed: bool,
    plus_one: bool,
}

impl NewModel {
    /// Describes a model by the bytes of its `config.json` and its tensors' names and shapes in a Hugging Face folder.
    ///
    /// # Errors
    /// [`GgufError::Argument`] for a configuration or a tensor that files of this format have no place for.
    pub fn of(config: &[u8], tensors: &[(String, Vec<usize>)], kinds: NewKinds) -> Result<Self> {
        let wrong = |reason: String| GgufError::argument(OP, reason);
        let config: Json =
            serde_json::from_slice(config).map_err(|error| wrong(error.to_string()))?;
        let described = describe(&config).map_err(wrong)?;
        let placed = placed(&described, tensors).map_err(wrong)?;
        let mut model = Self {
            metadata: described.metadata.clone(),
            tensors: Vec::new(),
            sources: Vec::new(),
        };
        let tied = config["tie_word_embeddings"] == true;
        let of = RecipeModel {
            n_layers: described.n_layers,
            tied,
        };
        for (_, (name, shape, parts)) in placed {
            let kind = match kinds {
                NewKinds::Floats(_) if is_kept(&name, &shape) => BlockKind::F32,
                NewKinds::Floats(kind) => kind,
                NewKinds::Recipe(recipe) => recipe.kind_of(&name, &shape, of),
            };
            model.tensors.push(NewTensor { name, kind, shape });
            model.sources.push(Source::Tensors(parts));
        }
        if let Some(factors) = described.factors {
            model.tensors.push(NewTensor {
                name: FACTORS.to_owned(),
                kind: BlockKind::F32,
                shape: vec![factors.len()],
            });
            model.sources.push(Source::Factors(factors));
        }
        model.state_kinds(kinds);
        Ok(model)
    }

    fn state_kinds(&mut self, kinds: NewKinds) {
        let number = match kinds {
            NewKinds::Floats(BlockKind::F16) => 1,
            NewKinds::Floats(BlockKind::BF16) => 32,
            NewKinds::Floats(_) => 0,
            NewKinds::Recipe(recipe) => recipe.file_type(),
        };
        self.metadata.set("general.file_type", number);
        if matches!(kinds, NewKinds::Recipe(_)) {
            self.metadata.set("general.quantization_version", 2_u32);
        }
    }

    /// The metadata, to which more may be added.
    pub fn metadata_mut(&mut self) -> &mut Metadata {
        &mut self.metadata
    }

    /// The file's tensors in order.
    pub fn tensors(&self) -> &[NewTensor] {
        &self.tensors
    }

    /// The `config.json` that a reader of the file would make: what the file's format cannot say is missing from it.
    ///
    /// # Errors
    /// What [`GgufModel::new`] refuses.
    pub fn config_as_read(&self) -> Result<Vec<u8>> {
        // The sizes of rows are not read from tensors.
        let thin = |tensor: &NewTensor| {
            let mut shape = tensor.shape.clone();
            if let (Some(last), true) = (shape.last_mut(), tensor.shape.len() > 1) {
                *last = 1;
            }
            let (name, kind) = (tensor.name.clone(), BlockKind::F32);
            NewTensor { name, kind, shape }
        };
        let thin: Vec<NewTensor> = self.tensors.iter().map(thin).collect();
        let bytes = to_gguf(&self.metadata, &thin, |at| match &self.sources[at] {
            Source::Factors(factors) => {
                Ok(factors.iter().flat_map(|one| one.to_le_bytes()).collect())
            }
            Source::Tensors(_) => {
                let n: usize = thin[at].shape.iter().product();
                Ok(vec![0; n * 4])
            }
        })?;
        Ok(GgufModel::new(Gguf::from_bytes(bytes)?)?.config_json())
    }

    /// Writes the file. `values` returns the values of a tensor of the Hugging Face folder, and `importance` those of
    /// its columns, if there are any ([`quantise`]).
    ///
    /// # Errors
    /// As [`write_gguf`] and [`quantise`], and those of `values`.
    pub fn write(
        &self,
        path: &Path,
        mut values: impl FnMut(&str) -> Result<Vec<f32>>,
        importance: impl Fn(&str) -> Option<Vec<f32>>,
    ) -> Result<()> {
        write_gguf(path, &self.metadata, &self.tensors, |at| {
            let tensor = &self.tensors[at];
            let parts = match &self.sources[at] {
                Source::Factors(factors) => {
                    return Ok(factors.iter().flat_map(|one| one.to_le_bytes()).collect());
                }
                Source::Tensors(parts) => parts,
            };
            let columns = tensor.shape.last().copied().unwrap_or(1);
            let mut bytes = Vec::new();
            for name in &parts.names {
                let values = parts.stored(values(name)?, columns);
                let importance = importance(name);
                bytes.extend(quantise(
                    tensor.kind,
                    &values,
                    columns,
                    importance.as_deref(),
                )?);
            }
            Ok(bytes)
        })
    }
}

impl Parts {
    /// The values as the file has them, in rows of so many columns.
    fn stored(&self, mut values: Vec<f32>, columns: usize) -> Vec<f32> {
        if self.plus_one {
            values.iter_mut().for_each(|value| *value += 1.0);
        }
        if self.transposed {
            return super::transposed(&values, values.len() / columns.max(1));
        }
        if self.interleaved_heads == 0 {
            return values;
        }
        // A vector's values are its rows.
        let is_vector = values.len() == columns;
        let width = if is_vector { 1 } else { columns };
        let rows = values.len() / width;
        let half = rows / self.interleaved_heads / 2;
        let mut stored = Vec::with_capacity(values.len());
        for row in 0..rows {
            let (head, within) = (row / (2 * half), row % (2 * half));
            let source = (2 * head + within % 2) * half + within / 2;
            stored.extend_from_slice(&values[source * width..(source + 1) * width]);
        }
        stored
    }
}

type Placed = (String, Vec<usize>, Parts);
/// The tensors of a layer's experts by their numbers.
type Experts = BTreeMap<usize, (String, Vec<usize>)>;

/// The file's tensors by their order in it.
fn placed(
    described: &Described,
    tensors: &[(String, Vec<usize>)],
) -> Result<BTreeMap<Order, Placed>, String> {
    let family = described.family;
    let mut placed: BTreeMap<Order, Placed> = BTreeMap::new();
    let mut experts: BTreeMap<Order, Experts> = BTreeMap::new();
    for (name, shape) in tensors {
        match stored(family, name) {
            Some(Stored::Whole(ours, order)) => {
                placed.insert(order, whole(described, ours, name, shape));
            }
            Some(Stored::Expert(ours, order, expert)) => {
                let all = experts.entry(order).or_default();
                all.insert(expert, (name.clone(), shape.clone()));
                placed
                    .entry(order)
                    .or_insert_with(|| (ours, Vec::new(), Parts::default()));
            }
            None => {
                let class = family.class().0;
                return Err(format!(
                    "the tensor {} is not known in a {class}",
                    shown(name)
                ));
            }
        }
    }
    for (order, all) in experts {
        let Some((ours, shape, parts)) = placed.get_mut(&order) else {
            continue;
        };
        let one = all.values().next().map(|(_, shape)| shape.clone());
        let one = one.unwrap_or_default();
        let complete = all.keys().copied().eq(0..all.len());
        if !complete || all.values().any(|(_, other)| *other != one) {
            return Err(format!(
                "the experts of {ours} are not all there, or of different shapes"
            ));
        }
        *shape = [&[all.len()], &one[..]].concat();
        parts.names = all.into_values().map(|(name, _)| name).collect();
    }
    Ok(placed)
}

fn whole(described: &Described, ours: String, name: &str, shape: &[usize]) -> Placed {
    let family = described.family;
    let heads = match () {
        () if !family.interleaves() => 0,
        () if ours.contains(".attn_q.") => described.n_heads,
        () if ours.contains(".attn_k.") => described.n_kv_heads,
        () => 0,
    };
    let transposed = family == Family::Gpt2 && shape.len() == 2 && name.contains(".h.");
    let mut shape = shape.to_vec();
    if transposed {
        shape.reverse();
    }
    let parts = Parts {
        names: vec![name.to_owned()],
        interleaved_heads: heads,
        transposed,
        plus_one: family.is_gemma() && name.ends_with("norm.weight"),
    };
    (ours, shape, parts)
}
