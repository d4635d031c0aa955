//! Adapters in the files of the library PEFT, under the names of a family's modules.
//!
//! A family may have several of HLX's layers in one module: GPT-2's `c_attn` is queries, keys and values. PEFT
//! has one adapter a module. Those of n layers are written as one of rank n r: its `A` is theirs below each
//! other, and its `B` has theirs as blocks on the diagonal, zeros elsewhere, so that the product is exactly
//! theirs; `rank_pattern` and `alpha_pattern` name the module. A module's adapter of rank r is read too: each
//! layer has its `A` then, and its own rows of `B`. Magnitudes of weight-decomposed adapters are one list of rows.

use safetensors::tensor::SafeTensors;
use serde_json::{Map, Value, json};

use super::module_adapter::ModuleAdapter;
use super::modules::{joined_modules, parts_of_module, saved_module_names};
use super::names::{PEFT_CONFIG_FILE, PREFIX};
use crate::error::NnError;
use crate::files::hugging_face::{Place, place_of, to_safetensors};
use crate::layers::lora::{self, LoraConfig, LoraRules, is_of_adapter};
use crate::parameters::format_error;
use crate::{Architecture, Parameter, Result, Weights};

/// PEFT's file of an adapter's tensors.
pub const PEFT_FILE: &str = "adapter_model.safetensors";

impl Weights {
    /// The adapters by the modules of a family, in the order of declaration.
    fn module_adapters(&self, family: Option<Architecture>) -> Vec<ModuleAdapter<'_>> {
        let mut modules: Vec<ModuleAdapter<'_>> = Vec::new();
        for adapter in self.adapters() {
            let place = place_of(family, adapter.a.name());
            let (part, n_parts) = place.part;
            let name = place.name.strip_suffix(lora::A).unwrap_or(&place.name);
            match modules.iter_mut().rev().find(|one| one.name == name) {
                Some(module) => module.layers.push((part, adapter)),
                None => modules.push(ModuleAdapter {
                    name: name.to_owned(),
                    layers: vec![(part, adapter)],
                    n_parts,
                }),
            }
        }
        modules
    }

    /// The adapters and the modules that are trained as a whole as a file of the library PEFT,
    /// `adapter_model.safetensors`, under the names of a family's modules, without a family under HLX's own.
    ///
    /// # Errors
    /// [`NnError::Mismatch`] for layers of one module with different adapters, and what the device and the format
    /// report.
    pub fn lora_to_safetensors(
        &self,
        config: &LoraConfig,
        family: Option<Architecture>,
    ) -> Result<Vec<u8>> {
        let mut tensors = Vec::new();
        for module in self.module_adapters(family) {
            tensors.extend(module.joined()?);
            tensors.extend(module.joined_magnitude()?);
        }
        tensors.extend(joined_modules(self, config, family)?);
        to_safetensors(&tensors)
    }

    /// Reads adapters, and the modules that a configuration trains as a whole, from a file of the library PEFT for a
    /// model of a family; nothing is written unless all of them fit.
    ///
    /// # Errors
    /// [`NnError::Mismatch`] with the first tensor that is missing, not finite, of another shape or type, or
    /// of no layer of the model, and a module's adapter that its layers' cannot express.
    pub fn load_lora(
        &self,
        bytes: &[u8],
        config: &LoraConfig,
        family: Option<Architecture>,
    ) -> Result<()> {
        let file = SafeTensors::deserialize(bytes).map_err(|e| format_error(&e))?;
        let modules = self.module_adapters(family);
        let uploads = modules.iter().map(|module| module.parts(&file));
        let mut uploads = uploads.collect::<Result<Vec<_>>>()?.concat();
        let (saved, names) = parts_of_module(self, config, family, &file)?;
        uploads.extend(saved);
        let is_known = |name: &str| {
            let own = name.strip_prefix(PREFIX).unwrap_or_default();
            names.iter().any(|one| one == own) || modules.iter().any(|module| module.has(own))
        };
        let mut others = file.names();
        others.retain(|name| !is_known(name));
        others.sort_unstable();
        for name in others {
            self.check_other(&file, name, family)?;
        }
        for (parameter, values) in uploads {
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
                    "{name} is a weight of the model with other values, and `modules_to_save` does not name it"
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
            "it is of DoRA, and `use_dora` is not true",
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
            "PEFT's `save_pretrained` leaves `modules_to_save` out of the names",
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
/// [`NnError::Mismatch`] for layers of one module with different adapters.
pub fn peft_config(
    config: &LoraConfig,
    weights: &Weights,
    family: Option<Architecture>,
) -> Result<String> {
    let rules = LoraRules::new(config.clone());
    let modules = weights.module_adapters(family);
    let mut names: Vec<&str> = modules.iter().map(|module| module.name.as_str()).collect();
    names.sort_unstable();
    let (mut ranks, mut alphas) = (Map::new(), Map::new());
    for module in &modules {
        let (rank, alpha) = module.numbers(&rules)?;
        let is_joined = module.layers.len() > 1;
        if is_joined || rank != config.rank {
            ranks.insert(module.name.clone(), json!(rank));
        }
        if is_joined || alpha != config.alpha {
            alphas.insert(module.name.clone(), json!(alpha));
        }
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
        "use_rslora": config.rslora,
        "use_dora": config.dora,
        "inference_mode": true,
    });
    let saved = saved_module_names(weights, config, family);
    if !saved.is_empty() {
        file[MODULES_TO_SAVE] = json!(saved);
    }
    file.sort_all_objects();
    let text = serde_json::to_string_pretty(&file);
    text.map_err(|error| NnError::mismatch(PEFT_CONFIG_FILE, error.to_string()))
}

const MODULES_TO_SAVE: &str = "modules_to_save";

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
        let others = usize::from(keys.contains_key(MODULES_TO_SAVE));
        keys.len() == KEYS.len() + others && KEYS.iter().all(|key| keys.contains_key(*key))
    })
}
