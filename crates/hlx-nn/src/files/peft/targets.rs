//! The layers that `target_modules` and the keys beside it choose, and the modules of `modules_to_save`.

use std::collections::BTreeSet;

use fancy_regex::Regex;
use serde_json::{Map, Value};

use super::modules::{are_saved, entries};
use super::names::{HEAD, is_neutral};
use crate::files::hugging_face::Place;
use crate::layers::lora::{expression, is};
use crate::{Architecture, CausalConfig, Parameter};

/// Whether an entry is a module's whole name or its last parts.
fn names(entry: &str, module: &str) -> bool {
    let before = module.strip_suffix(entry);
    before.is_some_and(|before| before.is_empty() || before.ends_with('.'))
}

/// The modules that a key names: by a list of names, by a regular expression for whole names, or all linear layers except
/// the output.
enum Named<'a> {
    List(Vec<&'a str>),
    Expression(Regex),
    AllLinear,
}

/// The last parts of the names of tables, which are no linear layers.
const TABLES: [&str; 4] = ["embed_tokens", "embed_positions", "wte", "wpe"];

/// Whether a module is a table, by the last part of its name.
fn is_table(module: &str) -> bool {
    TABLES.contains(&module.rsplit('.').next().unwrap_or(module))
}

impl<'a> Named<'a> {
    fn read(keys: &'a Map<String, Value>, name: &str) -> Result<Self, String> {
        let Some(Value::String(text)) = keys.get(name) else {
            return Ok(Self::List(list(keys, name)?));
        };
        if text == "all-linear" {
            return Ok(Self::AllLinear);
        }
        let whole = expression(text).and_then(|_| expression(&format!("^(?:{text})$")));
        let whole = whole
            .map_err(|reason| format!("`{name}`: `{text}` is no regular expression: {reason}"))?;
        Ok(Self::Expression(whole))
    }

    fn has(&self, module: &str) -> bool {
        match self {
            Self::List(entries) => entries.iter().any(|entry| names(entry, module)),
            Self::Expression(whole) => !is_table(module) && is(whole, module),
            Self::AllLinear => !is_table(module) && module != HEAD,
        }
    }
}

/// A list of names.
fn list<'a>(keys: &'a Map<String, Value>, name: &str) -> Result<Vec<&'a str>, String> {
    let found = keys.get(name).unwrap_or(&Value::Null);
    let entries = found.as_array().map(|all| all.iter().map(Value::as_str));
    let entries: Option<Vec<&str>> = entries.and_then(Iterator::collect);
    entries.ok_or_else(|| format!("`{name}` is {found}, expected a list of names"))
}

/// The layers that `target_modules` names, without those of `exclude_modules` and, where `layers_to_transform` says
/// which, of those layers alone.
pub(super) fn targets_of(
    keys: &Map<String, Value>,
    layers: &[(String, Place)],
    config: &CausalConfig,
) -> Result<Vec<String>, String> {
    let named = Named::read(keys, "target_modules")?;
    if let Named::List(entries) = &named {
        for &entry in entries {
            check_target(entry, layers, config)?;
        }
    }
    let excluded = match keys.get("exclude_modules").is_none_or(is_neutral) {
        true => Named::List(Vec::new()),
        false => Named::read(keys, "exclude_modules")?,
    };
    // An expression says itself of which layers.
    let indices = match &named {
        Named::List(_) => indices_of(keys, config)?,
        Named::Expression(_) | Named::AllLinear => None,
    };
    let saved = entries(keys);
    let is_chosen = |place: &Place| {
        let is_of_index = match &indices {
            Some(indices) => index_of(&place.name).is_some_and(|index| indices.contains(&index)),
            None => true,
        };
        let is_left = !excluded.has(&place.name) && !are_saved(&saved, &place.name);
        named.has(&place.name) && is_left && is_of_index
    };
    let chosen = layers.iter().filter(|(_, place)| is_chosen(place));
    let chosen: Vec<String> = chosen.map(|(layer, _)| layer.clone()).collect();
    match chosen.is_empty() {
        true => {
            Err("`target_modules` and the keys beside it leave no module of the model".to_owned())
        }
        false => Ok(chosen),
    }
}

/// Refuses an entry that names no layer with an adapter.
fn check_target(
    entry: &str,
    layers: &[(String, Place)],
    config: &CausalConfig,
) -> Result<(), String> {
    if entry == HEAD && config.tied_output {
        return Err(
            "`target_modules` names lm_head, and the model's output is tied to its embedding"
                .to_owned(),
        );
    }
    if is_table(entry) {
        return Err(format!(
            "`target_modules` names {entry}, and adapters of an embedding are not known here"
        ));
    }
    match layers.iter().any(|(_, place)| names(entry, &place.name)) {
        true => Ok(()),
        false => Err(format!(
            "`target_modules` names {entry}, which the model does not have"
        )),
    }
}

/// The layers' numbers that `layers_to_transform` names; `None` for all.
fn indices_of(
    keys: &Map<String, Value>,
    config: &CausalConfig,
) -> Result<Option<BTreeSet<usize>>, String> {
    let found = keys.get("layers_to_transform").unwrap_or(&Value::Null);
    // The name of the list of layers.
    let pattern = keys.get("layers_pattern").unwrap_or(&Value::Null);
    let usual = match config.architecture {
        Architecture::Gpt2 => "h",
        _ => "layers",
    };
    let is_usual = |one: &Value| one == usual;
    let is_known = match pattern {
        Value::Array(several) => several.iter().all(is_usual),
        Value::String(one) => one.is_empty() || one == usual,
        one => one.is_null(),
    };
    if !is_known {
        return Err(format!("`layers_pattern` is {pattern}, expected {usual}"));
    }
    let index = |one: &Value| usize::try_from(one.as_u64()?).ok();
    let indices: Option<BTreeSet<usize>> = match found {
        Value::Array(several) => several.iter().map(index).collect(),
        Value::Null => return Ok(None),
        one => index(one).map(|index| BTreeSet::from([index])),
    };
    let expected = "expected a layer's number or a list of them";
    let indices = indices.ok_or_else(|| format!("`layers_to_transform` is {found}, {expected}"))?;
    if let Some(index) = indices.iter().find(|&&index| index >= config.n_layers) {
        let n_layers = config.n_layers;
        return Err(format!(
            "`layers_to_transform` names layer {index}, and there are {n_layers}"
        ));
    }
    Ok((!indices.is_empty()).then_some(indices))
}

/// The number of a module's layer.
fn index_of(module: &str) -> Option<usize> {
    module.split('.').find_map(|part| part.parse().ok())
}

/// The modules of the model that `modules_to_save` names, under HLX's names.
pub(super) fn saved_of(
    keys: &Map<String, Value>,
    parameters: &[(Parameter, Place)],
    config: &CausalConfig,
) -> Result<Vec<String>, String> {
    if keys.get("modules_to_save").is_none_or(is_neutral) {
        return Ok(Vec::new());
    }
    let entries = list(keys, "modules_to_save")?;
    for &entry in &entries {
        let is_named = |(_, place): &(Parameter, Place)| are_saved(&[entry], module(&place.name));
        let is_tied_head = config.tied_output && are_saved(&[entry], HEAD);
        if !is_tied_head && !parameters.iter().any(is_named) {
            return Err(format!(
                "`modules_to_save` names {entry}, which the model does not have"
            ));
        }
    }
    let saved = parameters
        .iter()
        .filter(|(_, place)| are_saved(&entries, module(&place.name)));
    let mut modules: Vec<String> = saved
        .map(|(one, _)| module(one.name()).to_owned())
        .collect();
    modules.dedup();
    Ok(modules)
}

/// The module of a tensor.
fn module(tensor: &str) -> &str {
    tensor.rsplit_once('.').map_or(tensor, |(module, _)| module)
}
