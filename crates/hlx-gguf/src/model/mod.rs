//! The model of a file in the form of a Hugging Face folder: `config.json` and tensors by their names there.

mod config;
mod describe;
mod family;
mod keys;
mod new;
mod rope;

use std::collections::BTreeMap;
use std::ops::Range;

use serde_json::Value as Json;

pub use self::new::{NewKinds, NewModel};

use self::config::{Sizes, config_of};
use self::family::{Family, Named, named};
use crate::Result;
use crate::error::{GgufError, shown};
use crate::gguf::{Gguf, TensorInfo};
use crate::kind::BlockKind;

/// More layers than any model has.
pub(crate) const MAX_LAYERS: usize = 4096;
/// More experts than any model has.
const MAX_EXPERTS: usize = 4096;

/// A model's files and where they have each tensor of the model's Hugging Face folder.
#[derive(Clone, Debug)]
pub struct GgufModel {
    file: Gguf,
    config: Json,
    places: BTreeMap<String, StoredPlace>,
}

/// Where a file has a tensor of a Hugging Face model, and how it differs there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredPlace {
    /// The name of the file's tensor.
    pub tensor: String,
    /// The shape in the Hugging Face model.
    pub shape: Vec<usize>,
    /// The rows of the file's tensor that it is: all of them, or those of one expert. Of a vector, its values.
    pub rows: Range<usize>,
    /// Heads whose rows the file has as pairs that are rotated together, first value and second value in turns; 0 where
    /// it has them in Hugging Face's order, all first values before all second ones.
    pub interleaved_heads: usize,
    /// Whether the Hugging Face model has the matrix transposed.
    pub transposed: bool,
    /// Whether the file has 1 added to each value.
    pub plus_one: bool,
}

/// A matrix as a file stores it, with its rows in Hugging Face's order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredMatrix {
    /// How its values are stored.
    pub kind: BlockKind,
    /// `[out, in]`.
    pub shape: [usize; 2],
    /// The blocks of each row, one row after the other.
    pub bytes: Vec<u8>,
}

impl StoredPlace {
    /// The file's row that row `row` of the Hugging Face tensor is.
    pub fn source_row(&self, row: usize) -> usize {
        if self.interleaved_heads == 0 {
            return self.rows.start + row;
        }
        let width = self.rows.len() / self.interleaved_heads;
        let (head, within) = (row / width, row % width);
        let (second, pair) = (within / (width / 2), within % (width / 2));
        self.rows.start + head * width + 2 * pair + second
    }

    /// The rows of `row_bytes` bytes in Hugging Face's order.
    fn in_order(&self, bytes: Vec<u8>, row_bytes: usize) -> Vec<u8> {
        if self.interleaved_heads == 0 {
            return bytes;
        }
        let mut ordered = Vec::with_capacity(bytes.len());
        for row in 0..self.rows.len() {
            let source = (self.source_row(row) - self.rows.start) * row_bytes;
            ordered.extend_from_slice(&bytes[source..source + row_bytes]);
        }
        ordered
    }
}

impl GgufModel {
    /// Finds the model of files: its configuration, and the place of each of its tensors.
    ///
    /// # Errors
    /// [`GgufError::File`]: an architecture, a key or a tensor that is not known, a key that is missing or contradicts
    /// the tensors.
    pub fn new(file: Gguf) -> Result<Self> {
        let (sizes, config) = config_of(&file).map_err(|reason| file.wrong(reason))?;
        let places = places_of(&file, &sizes).map_err(|reason| file.wrong(reason))?;
        Ok(Self {
            file,
            config,
            places,
        })
    }

    /// The files.
    pub fn file(&self) -> &Gguf {
        &self.file
    }

    /// The bytes of the model's `config.json`, as `transformers` reads it.
    pub fn config_json(&self) -> Vec<u8> {
        // A tree of maps and numbers has a JSON form.
        serde_json::to_vec_pretty(&self.config).unwrap_or_default()
    }

    /// The model's tensors by their names in Hugging Face's folder.
    pub fn places(&self) -> impl ExactSizeIterator<Item = (&str, &StoredPlace)> {
        self.places.iter().map(|(name, place)| (&name[..], place))
    }

    /// The place of a tensor.
    pub fn place(&self, name: &str) -> Option<&StoredPlace> {
        self.places.get(name)
    }

    fn found(&self, op: &'static str, name: &str) -> Result<(&StoredPlace, &TensorInfo)> {
        let place = self.places.get(name);
        let found = place.and_then(|place| Some((place, self.file.tensor(&place.tensor)?)));
        found.ok_or_else(|| GgufError::argument(op, format!("the model has no {}", shown(name))))
    }

    /// How a tensor's values are stored.
    pub fn kind(&self, name: &str) -> Option<BlockKind> {
        let place = self.places.get(name)?;
        Some(self.file.tensor(&place.tensor)?.kind())
    }

    /// Reads a tensor's values as f32, in the shape and with the values of the Hugging Face folder.
    ///
    /// # Errors
    /// [`GgufError::Argument`] for a name that the model does not have; as [`Gguf::read_rows`].
    pub fn values(&self, name: &str) -> Result<Vec<f32>> {
        let (place, tensor) = self.found("values", name)?;
        let bytes = match place.shape.len() {
            1 => place.in_order(self.file.read(tensor)?, tensor.kind().block_bytes()),
            _ => self.rows_of(place, tensor)?,
        };
        let mut values = crate::widen(tensor.kind(), &bytes)?;
        if place.plus_one {
            values.iter_mut().for_each(|value| *value -= 1.0);
        }
        Ok(match place.transposed {
            true => transposed(&values, tensor.columns()),
            false => values,
        })
    }

    /// Reads a matrix as it is stored, with its rows in Hugging Face's order.
    ///
    /// # Errors
    /// [`GgufError::Argument`] for a name that the model does not have, and for a tensor that is no matrix or differs
    /// in more than its rows' order; as [`Gguf::read_rows`].
    pub fn stored(&self, name: &str) -> Result<StoredMatrix> {
        const OP: &str = "stored";
        let (place, tensor) = self.found(OP, name)?;
        let (&[rows, columns], false, false) = (&place.shape[..], place.transposed, place.plus_one)
        else {
            let reason = format!("{name} is no matrix that the file has as it is");
            return Err(GgufError::argument(OP, reason));
        };
        Ok(StoredMatrix {
            kind: tensor.kind(),
            shape: [rows, columns],
            bytes: self.rows_of(place, tensor)?,
        })
    }

    fn rows_of(&self, place: &StoredPlace, tensor: &TensorInfo) -> Result<Vec<u8>> {
        let bytes = self.file.read_rows(tensor, place.rows.clone())?;
        Ok(place.in_order(bytes, tensor.row_bytes()))
    }
}

/// The columns of rows one after the other.
fn transposed(values: &[f32], columns: usize) -> Vec<f32> {
    let rows = values.len() / columns.max(1);
    let column = |at: usize| (0..rows).map(move |row| values[row * columns + at]);
    (0..columns).flat_map(column).collect()
}

/// The places of all tensors.
fn places_of(file: &Gguf, sizes: &Sizes) -> Result<BTreeMap<String, StoredPlace>, String> {
    if sizes.n_layers > MAX_LAYERS || sizes.n_experts > MAX_EXPERTS {
        return Err(format!(
            "has {} layers and {} experts, expected at most {MAX_LAYERS} and {MAX_EXPERTS}",
            sizes.n_layers, sizes.n_experts
        ));
    }
    let mut places = BTreeMap::new();
    for tensor in file.tensors() {
        let name = tensor.name();
        // The configuration has what it says.
        if name == "rope_freqs.weight" {
            continue;
        }
        match named(sizes.family, name) {
            Some(Named::Whole(theirs)) => {
                let place = whole(tensor, sizes, &theirs)?;
                places.insert(theirs, place);
            }
            Some(Named::Experts(theirs)) => add_experts(&mut places, tensor, sizes, &theirs)?,
            None => {
                let class = sizes.family.class().0;
                return Err(format!(
                    "the tensor {} is not known in a {class}",
                    shown(name)
                ));
            }
        }
    }
    Ok(places)
}

/// The place of a tensor that is one in Hugging Face's folder too.
fn whole(tensor: &TensorInfo, sizes: &Sizes, theirs: &str) -> Result<StoredPlace, String> {
    let of = |part: &str| {
        theirs.ends_with(&format!("{part}.weight")) || theirs.ends_with(&format!("{part}.bias"))
    };
    let heads = match () {
        () if !sizes.family.interleaves() => 0,
        () if of("self_attn.q_proj") => sizes.n_heads,
        () if of("self_attn.k_proj") => sizes.n_kv_heads,
        () => 0,
    };
    let mut shape = tensor.shape().to_vec();
    // A bias has one row, whose values are permuted.
    let rows = match shape.len() {
        1 => shape[0],
        _ => tensor.rows(),
    };
    if heads > 0 && !rows.is_multiple_of(heads.saturating_mul(2)) {
        return Err(format!(
            "the tensor {} has {rows} rows, expected whole pairs for {heads} heads",
            shown(tensor.name())
        ));
    }
    let transposed = sizes.family == Family::Gpt2 && shape.len() == 2 && theirs.contains(".h.");
    if transposed {
        shape.reverse();
    }
    if heads > 0 && shape.len() == 1 && !tensor.kind().is_float() {
        let name = shown(tensor.name());
        return Err(format!(
            "the tensor {name} is a bias of {}",
            tensor.kind().name()
        ));
    }
    Ok(StoredPlace {
        tensor: tensor.name().to_owned(),
        rows: 0..rows,
        shape,
        interleaved_heads: heads,
        transposed,
        plus_one: sizes.family.is_gemma() && theirs.ends_with("norm.weight"),
    })
}

/// The places of the experts' matrices that a tensor holds, one behind the other.
fn add_experts(
    places: &mut BTreeMap<String, StoredPlace>,
    tensor: &TensorInfo,
    sizes: &Sizes,
    theirs: &str,
) -> Result<(), String> {
    let &[n_experts, rows, columns] = tensor.shape() else {
        return Err(format!(
            "the tensor {} has shape {:?}, expected [experts, out, in]",
            shown(tensor.name()),
            tensor.shape()
        ));
    };
    if n_experts != sizes.n_experts {
        return Err(format!(
            "the tensor {} has {n_experts} experts, expected {}",
            shown(tensor.name()),
            sizes.n_experts
        ));
    }
    for expert in 0..n_experts {
        let place = StoredPlace {
            tensor: tensor.name().to_owned(),
            shape: vec![rows, columns],
            rows: expert * rows..(expert + 1) * rows,
            interleaved_heads: 0,
            transposed: false,
            plus_one: false,
        };
        places.insert(theirs.replace("{}", &expert.to_string()), place);
    }
    Ok(())
}
