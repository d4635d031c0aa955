//! Adapters in the files of the library PEFT, under the names of a family's modules.
//!
//! A family may have several of HLX's layers in one module: GPT-2's `c_attn` is queries, keys and values. PEFT
//! has one adapter a module. Those of n layers are written as one of rank n r: its `A` is theirs below each
//! other, and its `B` has theirs as blocks on the diagonal, zeros elsewhere, so that the product is exactly
//! theirs; `rank_pattern` and `alpha_pattern` name the module. A module's adapter of rank r is read too: each
//! layer has its `A` then, and its own rows of `B`. Magnitudes of weight-decomposed adapters are one list of rows.

use safetensors::tensor::SafeTensors;
use serde_json::{Map, Value, json};

use super::config::PEFT_CONFIG_FILE;
use super::modules::{joined_modules, parts_of_module, saved_module_names};
use crate::error::NnError;
use crate::files::hugging_face::{NamedTensor, Place, place_of, to_safetensors};
use crate::layers::lora::{self, Adapter, LoraConfig, LoraRules, is_of_adapter};
use crate::parameters::format_error;
use crate::{Architecture, Parameter, Result, Weights};

/// PEFT's file of an adapter's tensors.
pub const PEFT_FILE: &str = "adapter_model.safetensors";

/// What PEFT's files put before every name.
pub(super) const PREFIX: &str = "base_model.model.";

/// The adapters of one module of a family.
struct ModuleAdapter<'a> {
    /// The module's name, without PEFT's prefix.
    name: String,
    /// The layers that are a part of it and have an adapter, each with the part's number.
    layers: Vec<(usize, Adapter<'a>)>,
    /// The parts that the module has.
    n_parts: usize,
}

/// The rank of each layer's adapter of a module, and what it reads and writes.
struct Extents {
    rank: usize,
    input: usize,
    output: usize,
}

impl ModuleAdapter<'_> {
    /// The names of its factors.
    fn factors(&self) -> [String; 2] {
        [lora::A, lora::B].map(|end| format!("{}{end}", self.name))
    }

    fn magnitude(&self) -> String {
        format!("{}{}", self.name, lora::MAGNITUDE)
    }

    /// Whether the adapters are weight-decomposed.
    fn is_decomposed(&self) -> bool {
        self.layers.iter().any(|(_, one)| one.magnitude.is_some())
    }

    /// Whether a tensor of a file is one of its own.
    fn has(&self, name: &str) -> bool {
        let is_magnitude = self.is_decomposed() && self.magnitude() == name;
        is_magnitude || self.factors().iter().any(|one| one == name)
    }

    fn extents(&self) -> Result<Extents> {
        let of = |(_, one): &(usize, Adapter<'_>)| {
            [one.a.shape()[0], one.a.shape()[1], one.b.shape()[0]]
        };
        let mut all = self.layers.iter().map(of);
        let first = all.next().unwrap_or_default();
        match all.all(|one| one == first) {
            true => {
                let [rank, input, output] = first;
                Ok(Extents {
                    rank,
                    input,
                    output,
                })
            }
            false => {
                let reason = format!(
                    "the parts of {} have different extents, which PEFT's file cannot hold",
                    self.name
                );
                Err(NnError::mismatch("adapter", reason))
            }
        }
    }

    /// The rank and the alpha of the module in PEFT's configuration.
    ///
    /// # Errors
    /// Parts whose adapters have different numbers.
    fn numbers(&self, rules: &LoraRules) -> Result<(usize, f64)> {
        let of = |layer: &str| (rules.rank(layer), rules.alpha(layer));
        let mut all = self.layers.iter().map(|(_, one)| of(one.layer));
        let (rank, alpha) = all.next().unwrap_or_default();
        match all.all(|one| one == (rank, alpha)) {
            true => {
                let parts = self.layers.len();
                Ok((rank * parts, alpha * of_parts(parts, rules.config.rslora)))
            }
            false => {
                let reason = format!(
                    "the parts of {} have different ranks or alphas, which PEFT's file cannot hold; merge the \
                     adapters instead",
                    self.name
                );
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
        let Extents {
            rank,
            input,
            output,
        } = self.extents()?;
        let whole = self.rank(rank);
        let mut joined_a = Vec::with_capacity(whole * input);
        let mut joined_b = vec![0.0; self.n_parts * output * whole];
        for (place, (part, one)) in self.layers.iter().enumerate() {
            joined_a.extend(one.a.tensor()?.detach().to_vec::<f32>()?);
            let rows = one.b.tensor()?.detach().to_vec::<f32>()?;
            let into = joined_b[part * output * whole..].chunks_mut(whole);
            for (row, own) in into.zip(rows.chunks(rank)) {
                row[place * rank..(place + 1) * rank].copy_from_slice(own);
            }
        }
        let [a, b] = self.factors().map(|name| format!("{PREFIX}{name}"));
        Ok([
            (a, vec![whole, input], joined_a),
            (b, vec![self.n_parts * output, whole], joined_b),
        ])
    }

    /// The module's magnitudes, if its adapters are weight-decomposed.
    fn joined_magnitude(&self) -> Result<Option<NamedTensor>> {
        if !self.is_decomposed() {
            return Ok(None);
        }
        let mut rows = Vec::new();
        for part in 0..self.n_parts {
            let own = self.layers.iter().find(|(of, _)| *of == part);
            let Some(magnitude) = own.and_then(|(_, one)| one.magnitude) else {
                let reason = format!(
                    "some parts of {} have no adapter, whose magnitudes PEFT's file needs",
                    self.name
                );
                return Err(NnError::mismatch("adapter", reason));
            };
            rows.extend(magnitude.tensor()?.detach().to_vec::<f32>()?);
        }
        let name = format!("{PREFIX}{}", self.magnitude());
        Ok(Some((name, vec![rows.len()], rows)))
    }

    /// Each layer's parameters out of a file's.
    fn parts(&self, file: &SafeTensors<'_>) -> Result<Vec<(&Parameter, Vec<f32>)>> {
        let Extents {
            rank,
            input,
            output,
        } = self.extents()?;
        let [name_a, name_b] = self.factors();
        let (a, a_shape) = read(file, &name_a)?;
        let (mut left, b_shape) = read(file, &name_b)?;
        let whole = match a_shape[..] {
            [whole, _] if whole == self.rank(rank) => whole,
            _ => rank,
        };
        let rows = self.n_parts * output;
        expect(&name_a, &a_shape, &[whole, input])?;
        expect(&name_b, &b_shape, &[rows, whole])?;
        let mut parts = Vec::with_capacity(3 * self.layers.len());
        for (place, &(part, one)) in self.layers.iter().enumerate() {
            let first = if whole == rank { 0 } else { place * rank };
            parts.push((one.a, a[first * input..(first + rank) * input].to_vec()));
            let mut block = Vec::with_capacity(output * rank);
            for row in left[part * output * whole..].chunks_mut(whole).take(output) {
                let own = &mut row[first..first + rank];
                block.extend_from_slice(own);
                own.fill(0.0);
            }
            parts.push((one.b, block));
        }
        if left.iter().any(|&value| value != 0.0) {
            let reason = format!(
                "{PREFIX}{} of rank {whole} is not made of {} adapters of rank {rank}",
                self.name,
                self.layers.len()
            );
            return Err(NnError::mismatch("adapter", reason));
        }
        if self.is_decomposed() {
            let name = self.magnitude();
            let (values, shape) = read(file, &name)?;
            expect(&name, &shape, &[rows])?;
            for &(part, one) in &self.layers {
                let own = values[part * output..(part + 1) * output].to_vec();
                parts.extend(one.magnitude.map(|magnitude| (magnitude, own)));
            }
        }
        Ok(parts)
    }
}

/// By what the alpha of a module of several layers is multiplied, so that its scale is that of each layer.
pub(super) fn of_parts(parts: usize, rslora: bool) -> f64 {
    match rslora {
        true => (parts as f64).sqrt(),
        false => parts as f64,
    }
}

/// Fails unless a tensor of a file has a shape.
pub(super) fn expect(name: &str, shape: &[usize], expected: &[usize]) -> Result<()> {
    if shape == expected {
        return Ok(());
    }
    let reason = format!("{PREFIX}{name} has shape {shape:?}, expected {expected:?}");
    Err(NnError::mismatch("adapter", reason))
}

/// A tensor of a file and its shape.
pub(super) fn read(file: &SafeTensors<'_>, name: &str) -> Result<(Vec<f32>, Vec<usize>)> {
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
