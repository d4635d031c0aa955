//! Modules that are trained as a whole (`modules_to_save`), in the files of the library PEFT.

use safetensors::tensor::SafeTensors;
use serde_json::{Map, Value};

use super::names::{HEAD, PREFIX, expect, names_head, read};
use crate::files::hugging_face::{NamedTensor, Place, place_of, stored_shape, transposed};
use crate::layers::lora::LoraConfig;
use crate::parameters::format_error;
use crate::{Architecture, CausalConfig, Parameter, Result, Weights};

/// The output's tensor.
const HEAD_WEIGHT: &str = "lm_head.weight";

/// The table of tokens under the families' names.
const TABLES: [&str; 2] = ["model.embed_tokens.weight", "transformer.wte.weight"];

/// The parameters of modules that are trained as a whole, by the tensors of a family that they are parts of: a tensor of
/// several parts is there with all of them.
fn saved_tensors<'a>(
    weights: &'a Weights,
    config: &LoraConfig,
    family: Option<Architecture>,
) -> Vec<(Place, Vec<&'a Parameter>)> {
    let mut tensors: Vec<(Place, Vec<&Parameter>)> = Vec::new();
    for parameter in weights.saved_modules(config) {
        let place = place_of(family, parameter.name());
        if !tensors.iter().any(|(known, _)| known.name == place.name) {
            tensors.push((place, Vec::new()));
        }
    }
    for parameter in weights.parameters() {
        let place = place_of(family, parameter.name());
        let known = tensors.iter_mut().find(|(one, _)| one.name == place.name);
        if let Some((_, parts)) = known {
            parts.push(parameter);
        }
    }
    tensors
}

/// Whether the output is the table of tokens, and no parameter of its own.
fn is_tied(weights: &Weights) -> bool {
    weights.get(HEAD_WEIGHT).is_none()
}

/// The modules as tensors of a file. The table of a tied model is written as the output's, too: PEFT does not tie what it
/// has replaced.
pub(super) fn joined_modules(
    weights: &Weights,
    config: &LoraConfig,
    family: Option<Architecture>,
) -> Result<Vec<NamedTensor>> {
    let mut tensors = Vec::new();
    for (place, parts) in saved_tensors(weights, config, family) {
        let mut values = Vec::new();
        for part in &parts {
            values.extend(part.tensor()?.detach().to_vec::<f32>()?);
        }
        let shape = stored_shape(parts[0].shape(), &place);
        if let (true, &[rows, columns]) = (place.transposed, &shape[..]) {
            values = transposed(&values, columns, rows);
        }
        if is_tied(weights) && TABLES.contains(&place.name.as_str()) {
            let name = format!("{PREFIX}{HEAD_WEIGHT}");
            tensors.push((name, shape.clone(), values.clone()));
        }
        tensors.push((format!("{PREFIX}{}", place.name), shape, values));
    }
    Ok(tensors)
}

/// The names of the modules for PEFT's configuration, sorted.
pub(super) fn saved_module_names(
    weights: &Weights,
    config: &LoraConfig,
    family: Option<Architecture>,
) -> Vec<String> {
    let tensors = saved_tensors(weights, config, family);
    let mut names: Vec<String> = tensors
        .iter()
        .map(|(place, _)| module(&place.name))
        .collect();
    let has_table = |(place, _): &(Place, _)| TABLES.contains(&place.name.as_str());
    if is_tied(weights) && tensors.iter().any(has_table) {
        names.push(HEAD.to_owned());
    }
    names.sort_unstable();
    names.dedup();
    names
}

fn module(tensor: &str) -> String {
    let module = tensor.rsplit_once('.').map_or(tensor, |(module, _)| module);
    module.to_owned()
}

/// The parameters with their values in a file.
type Uploads<'a> = Vec<(&'a Parameter, Vec<f32>)>;

/// Reads the modules' parameters from a file, and returns the names of their tensors too.
pub(super) fn parts_of_module<'a>(
    weights: &'a Weights,
    config: &LoraConfig,
    family: Option<Architecture>,
    file: &SafeTensors<'_>,
) -> Result<(Uploads<'a>, Vec<String>)> {
    let (mut uploads, mut names) = (Vec::new(), Vec::new());
    for (place, parts) in saved_tensors(weights, config, family) {
        let (mut values, shape) = read(file, &place.name)?;
        expect(&place.name, &shape, &stored_shape(parts[0].shape(), &place))?;
        if let (true, &[rows, columns]) = (place.transposed, &shape[..]) {
            values = transposed(&values, rows, columns);
        }
        let own = values.len() / parts.len();
        uploads.extend(
            parts
                .into_iter()
                .zip(values.chunks(own).map(<[f32]>::to_vec)),
        );
        if is_tied(weights) && TABLES.contains(&place.name.as_str()) {
            names.push(HEAD_WEIGHT.to_owned());
        }
        names.push(place.name);
    }
    Ok((uploads, names))
}

/// Whether the entries of `modules_to_save` name a module, by PEFT's rule: as the end of its name, or of that of a module
/// that it is a part of.
pub(super) fn are_saved(entries: &[&str], module: &str) -> bool {
    let ends = module.match_indices('.').map(|(at, _)| at);
    let mut all = ends.chain([module.len()]).map(|end| &module[..end]);
    all.any(|name| entries.iter().any(|entry| name.ends_with(entry)))
}

/// The entries of `modules_to_save`; none for a key that is left out.
pub(super) fn entries(keys: &Map<String, Value>) -> Vec<&str> {
    let entries = keys.get("modules_to_save").and_then(Value::as_array);
    let entries = entries.into_iter().flatten();
    entries.filter_map(Value::as_str).collect()
}

/// Whether an adapter, given by its `adapter_config.json` and its tensors, makes a model whose output is tied to its
/// embedding one that is not: it adapts or replaces one of the two alone, or both differently.
///
/// # Errors
/// Tensors that are no safetensors file.
pub fn peft_unties_output(text: &[u8], tensors: &[u8], config: &CausalConfig) -> Result<bool> {
    let Ok(keys) = serde_json::from_slice::<Map<String, Value>>(text) else {
        return Ok(false);
    };
    if !config.tied_output {
        return Ok(false);
    }
    if names_head(&keys) {
        return Ok(true);
    }
    let entries = entries(&keys);
    let table = TABLES[usize::from(config.family() == Some(Architecture::Gpt2))];
    if ![HEAD, &module(table)]
        .iter()
        .any(|one| are_saved(&entries, one))
    {
        return Ok(false);
    }
    let file = SafeTensors::deserialize(tensors).map_err(|error| format_error(&error))?;
    let [head, table] = [HEAD_WEIGHT, table].map(|name| file.tensor(&format!("{PREFIX}{name}")));
    Ok(match (head, table) {
        (Ok(head), Ok(table)) => head.data() != table.data(),
        _ => true,
    })
}
