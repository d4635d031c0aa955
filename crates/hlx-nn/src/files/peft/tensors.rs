//! Adapters in the files of the library PEFT, under the names of a family's modules.
//!
//! A family may have several of HLX's layers in one module: GPT-2's `c_attn` is queries, keys and values. PEFT
//! has one adapter a module. Those of n layers are written as one of rank n r: its `A` is theirs below each
//! other, and its `B` has theirs as blocks on the diagonal, zeros elsewhere, so that the product is exactly
//! theirs; `rank_pattern` and `alpha_pattern` name the module. A module's adapter of rank r is read too: each
//! layer has its `A` then, and its own rows of `B`.

use safetensors::tensor::SafeTensors;
use serde_json::{Map, Value, json};

use crate::error::NnError;
use crate::files::hugging_face::{NamedTensor, Place, place_of, to_safetensors};
use crate::layers::lora::{self, LoraConfig, is_of_adapter};
use crate::parameters::format_error;
use crate::{Architecture, Parameter, Result, Weights};

/// PEFT's file of an adapter's tensors.
pub const PEFT_FILE: &str = "adapter_model.safetensors";

/// What PEFT's files put before every name.
const PREFIX: &str = "base_model.model.";

/// The adapters of one module of a family.
struct ModuleAdapter<'a> {
    /// The names of its tensors, without PEFT's prefix.
    names: [String; 2],
    /// The layers that are a part of it and have an adapter: the part's number, and both factors.
    layers: Vec<(usize, &'a Parameter, &'a Parameter)>,
    /// The parts that the module has.
    n_parts: usize,
}

impl ModuleAdapter<'_> {
    /// The module's name.
    fn module(&self) -> &str {
        let [a, _] = &self.names;
        a.strip_suffix(lora::A).unwrap_or(a)
    }

    /// The rank of each layer's adapter, and what it reads and writes.
    fn extents(&self) -> Result<[usize; 3]> {
        let of = |(_, a, b): &(usize, &Parameter, &Parameter)| {
            [a.shape()[0], a.shape()[1], b.shape()[0]]
        };
        let mut all = self.layers.iter().map(of);
        let first = all.next().unwrap_or_default();
        match all.all(|one| one == first) {
            true => Ok(first),
            false => {
                let reason = format!("the parts of {} have different extents", self.module());
                Err(NnError::mismatch("adapter", reason))
            }
        }
    }

    /// The rank of the module's adapter in files that are written.
    fn rank(&self, rank: usize) -> usize {
        rank * self.layers.len()
    }

    /// The module's factors.
    fn joined(&self) -> Result<[NamedTensor; 2]> {
        let [rank, input, output] = self.extents()?;
        let whole = self.rank(rank);
        let mut joined_a = Vec::with_capacity(whole * input);
        let mut joined_b = vec![0.0; self.n_parts * output * whole];
        for (place, &(part, a, b)) in self.layers.iter().enumerate() {
            joined_a.extend(a.tensor()?.detach().to_vec::<f32>()?);
            let rows = b.tensor()?.detach().to_vec::<f32>()?;
            let into = joined_b[part * output * whole..].chunks_mut(whole);
            for (row, own) in into.zip(rows.chunks(rank)) {
                row[place * rank..(place + 1) * rank].copy_from_slice(own);
            }
        }
        let [a, b] = self.names.each_ref().map(|name| format!("{PREFIX}{name}"));
        Ok([
            (a, vec![whole, input], joined_a),
            (b, vec![self.n_parts * output, whole], joined_b),
        ])
    }

    /// Each layer's factors out of a file's.
    fn parts(&self, file: &SafeTensors<'_>) -> Result<Vec<(&Parameter, Vec<f32>)>> {
        let [rank, input, output] = self.extents()?;
        let (a, a_shape) = read(file, &self.names[0])?;
        let (mut left, b_shape) = read(file, &self.names[1])?;
        let whole = match a_shape[..] {
            [whole, _] if whole == self.rank(rank) => whole,
            _ => rank,
        };
        let rows = self.n_parts * output;
        for (name, shape, expected) in [
            (&self.names[0], a_shape, [whole, input]),
            (&self.names[1], b_shape, [rows, whole]),
        ] {
            if shape != expected {
                let reason = format!("{PREFIX}{name} has shape {shape:?}, expected {expected:?}");
                return Err(NnError::mismatch("adapter", reason));
            }
        }
        let mut parts = Vec::with_capacity(2 * self.layers.len());
        for (place, &(part, own_a, own_b)) in self.layers.iter().enumerate() {
            let first = if whole == rank { 0 } else { place * rank };
            parts.push((own_a, a[first * input..(first + rank) * input].to_vec()));
            let mut block = Vec::with_capacity(output * rank);
            for row in left[part * output * whole..].chunks_mut(whole).take(output) {
                let own = &mut row[first..first + rank];
                block.extend_from_slice(own);
                own.fill(0.0);
            }
            parts.push((own_b, block));
        }
        if left.iter().any(|&value| value != 0.0) {
            let reason = format!(
                "{PREFIX}{} of rank {whole} is not made of {} adapters of rank {rank}",
                self.module(),
                self.layers.len()
            );
            return Err(NnError::mismatch("adapter", reason));
        }
        Ok(parts)
    }
}

/// A tensor of a file and its shape.
fn read(file: &SafeTensors<'_>, name: &str) -> Result<(Vec<f32>, Vec<usize>)> {
    let name = format!("{PREFIX}{name}");
    let Ok(view) = file.tensor(&name) else {
        return Err(NnError::mismatch("adapter", format!("{name} is missing")));
    };
    let values = crate::parameters::as_f32(&name, &view)?;
    if let Some(reason) = crate::parameters::non_finite(&name, view.dtype(), view.data()) {
        return Err(NnError::mismatch("adapter", reason));
    }
    Ok((values, view.shape().to_vec()))
}

impl Weights {
    /// The adapters by the modules of a family, in the order of declaration.
    fn module_adapters(&self, family: Option<Architecture>) -> Vec<ModuleAdapter<'_>> {
        let mut modules: Vec<ModuleAdapter<'_>> = Vec::new();
        for (_, a, b) in self.adapters() {
            let [of_a, of_b] = [a, b].map(|one| place_of(family, one.name()));
            let (part, n_parts) = of_a.part;
            match modules
                .iter_mut()
                .rev()
                .find(|one| one.names[0] == of_a.name)
            {
                Some(module) => module.layers.push((part, a, b)),
                None => modules.push(ModuleAdapter {
                    names: [of_a.name, of_b.name],
                    layers: vec![(part, a, b)],
                    n_parts,
                }),
            }
        }
        modules
    }

    /// The adapters as a file of the library PEFT, `adapter_model.safetensors`, under the names of a family's
    /// modules, without a family under HLX's own.
    ///
    /// # Errors
    /// What the device and the format report.
    pub fn lora_to_safetensors(&self, family: Option<Architecture>) -> Result<Vec<u8>> {
        let modules = self.module_adapters(family);
        let tensors = modules.iter().map(ModuleAdapter::joined);
        to_safetensors(&tensors.collect::<Result<Vec<_>>>()?.concat())
    }

    /// Reads adapters from a file of the library PEFT for a model of a family; nothing is written unless all
    /// of them fit.
    ///
    /// # Errors
    /// [`NnError::Mismatch`] with the first tensor that is missing, not finite, of another shape or type, or
    /// of no layer of the model, and a module's adapter that its layers' cannot express.
    pub fn load_lora(&self, bytes: &[u8], family: Option<Architecture>) -> Result<()> {
        let file = SafeTensors::deserialize(bytes).map_err(|e| format_error(&e))?;
        let modules = self.module_adapters(family);
        let uploads = modules.iter().map(|module| module.parts(&file));
        let uploads = uploads.collect::<Result<Vec<_>>>()?;
        let is_known = |name: &str| {
            let own = name.strip_prefix(PREFIX).unwrap_or_default();
            modules
                .iter()
                .any(|module| module.names.iter().any(|one| one == own))
        };
        let mut others = file.names();
        others.retain(|name| !is_known(name));
        others.sort_unstable();
        for name in others {
            self.check_other(&file, name, family)?;
        }
        for (parameter, values) in uploads.into_iter().flatten() {
            let place = parameter.tensor()?.detach().buffer()?;
            self.device().upload(&place, &values)?;
        }
        Ok(())
    }

    /// Checks a tensor that is no adapter's: PEFT stores the matrix under an adapter of the output, and it must be the
    /// model's own.
    fn check_other(
        &self,
        file: &SafeTensors<'_>,
        name: &str,
        family: Option<Architecture>,
    ) -> Result<()> {
        let own = name.strip_prefix(PREFIX).unwrap_or_default();
        let own = own.replace(".base_layer.", ".");
        let is_named = |one: &&Parameter| {
            !is_of_adapter(one.name()) && place_of(family, one.name()) == whole(&own)
        };
        let Some(parameter) = self.parameters().iter().find(is_named) else {
            let why = other_tensor(name);
            let reason = format!("{name} is of no adapter of the model: {why}");
            return Err(NnError::mismatch("adapter", reason));
        };
        let view = file.tensor(name).map_err(|error| format_error(&error))?;
        let stored = crate::parameters::as_f32(name, &view)?;
        match parameter.tensor()?.detach().to_vec::<f32>()? == stored {
            true => Ok(()),
            false => {
                let reason = format!(
                    "{name} is a weight of the model with other values: a layer trained as a whole \
                     (`modules_to_save`, or new tokens), which is not known here"
                );
                Err(NnError::mismatch("adapter", reason))
            }
        }
    }

    /// The parameters that are no adapter's as a safetensors file: after [`Weights::merge_lora`], those of
    /// a model without adapters that computes the same.
    ///
    /// # Errors
    /// What the device and the format report.
    pub fn base_to_safetensors(&self) -> Result<Vec<u8>> {
        let base = self.parameters().iter();
        let base = base.filter(|one| !is_of_adapter(one.name()));
        let named = base.map(|one| {
            let values = one.tensor()?.detach().to_vec::<f32>()?;
            Ok((one.name().to_owned(), one.shape().to_vec(), values))
        });
        to_safetensors(&named.collect::<Result<Vec<_>>>()?)
    }
}

/// The place of a tensor that is a parameter as it is.
fn whole(name: &str) -> Place {
    Place {
        name: name.to_owned(),
        transposed: false,
        part: (0, 1),
    }
}

/// What a tensor is that belongs to no adapter here.
fn other_tensor(name: &str) -> &'static str {
    let of_kind = [
        (
            ".lora_magnitude_vector",
            "it is of DoRA, which is not known here",
        ),
        (
            ".lora_embedding_",
            "adapters of an embedding are not known here",
        ),
        (
            ".lora_B.bias",
            "biases of adapters (`lora_bias`) are not known here",
        ),
        (
            ".modules_to_save.",
            "layers trained as a whole (`modules_to_save`) are not known here",
        ),
        (
            ".trainable_tokens_",
            "tokens trained by themselves (`trainable_token_indices`) are not known here",
        ),
    ];
    let found = of_kind.iter().find(|(part, _)| name.contains(part));
    let is_factor = name.ends_with(lora::A) || name.ends_with(lora::B);
    match found {
        Some((_, why)) => why,
        None if name.contains(".lora_A.") && !is_factor => {
            "it has an adapter's name in its own; PEFT's `save_pretrained` leaves that out"
        }
        None if !name.starts_with(PREFIX) => "PEFT's names begin with base_model.model.",
        None if is_factor => "`target_modules` does not name its layer, or the model has none such",
        None => "it is no factor of an adapter",
    }
}

/// The text of PEFT's `adapter_config.json` beside [`Weights::lora_to_safetensors`].
///
/// # Errors
/// The serialiser's message; it is not expected to fail.
pub fn peft_config(
    config: &LoraConfig,
    weights: &Weights,
    family: Option<Architecture>,
) -> serde_json::Result<String> {
    let modules = weights.module_adapters(family);
    let mut names: Vec<&str> = modules.iter().map(ModuleAdapter::module).collect();
    names.sort_unstable();
    let (mut ranks, mut alphas) = (Map::new(), Map::new());
    for module in modules.iter().filter(|module| module.layers.len() > 1) {
        let n_layers = module.layers.len();
        ranks.insert(module.module().to_owned(), json!(module.rank(config.rank)));
        let alpha = config.alpha * n_layers as f64;
        alphas.insert(module.module().to_owned(), json!(alpha));
    }
    let mut file = json!({
        "peft_type": "LORA",
        "task_type": "CAUSAL_LM",
        "base_model_name_or_path": null,
        "r": config.rank,
        "lora_alpha": config.alpha,
        "rank_pattern": ranks,
        "alpha_pattern": alphas,
        "lora_dropout": 0.0,
        "target_modules": names,
        "bias": "none",
        // GPT-2's matrices are [in, out].
        "fan_in_fan_out": family == Some(Architecture::Gpt2),
        "use_rslora": false,
        "use_dora": false,
        "inference_mode": true,
    });
    file.sort_all_objects();
    serde_json::to_string_pretty(&file)
}

/// Whether an `adapter_config.json` has the keys that [`peft_config`] writes and no other: the library PEFT
/// writes more.
pub fn is_own_peft_config(text: &[u8]) -> bool {
    const KEYS: [&str; 14] = [
        "alpha_pattern",
        "base_model_name_or_path",
        "bias",
        "fan_in_fan_out",
        "inference_mode",
        "lora_alpha",
        "lora_dropout",
        "peft_type",
        "r",
        "rank_pattern",
        "target_modules",
        "task_type",
        "use_dora",
        "use_rslora",
    ];
    let keys = serde_json::from_slice::<Map<String, Value>>(text);
    keys.is_ok_and(|keys| {
        keys.len() == KEYS.len() && KEYS.iter().all(|key| keys.contains_key(*key))
    })
}
