//! PEFT's `adapter_config.json`: every key is followed, changes nothing, or is refused by its name.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value};

use crate::error::NnError;
use crate::files::hugging_face::{Place, place_of};
use crate::layers::LoraConfig;
use crate::{Architecture, CausalConfig, CausalLm, Parameter, ParameterBuilder, Result};

/// PEFT's file of an adapter's numbers.
pub const PEFT_CONFIG_FILE: &str = "adapter_config.json";

/// The output's layer.
const HEAD: &str = "lm_head";

/// Keys that are read here.
const READ: [&str; 11] = [
    "alpha_pattern",
    "exclude_modules",
    "layers_pattern",
    "layers_to_transform",
    "lora_alpha",
    "peft_type",
    "r",
    "rank_pattern",
    "target_modules",
    "task_type",
    "use_rslora",
];

/// Keys that change nothing of a saved adapter's result.
const WITHOUT_EFFECT: [&str; 11] = [
    "auto_mapping",
    "base_model_name_or_path",
    "eva_config",
    "fan_in_fan_out",
    "inference_mode",
    "lora_dropout",
    "megatron_core",
    "peft_version",
    "qalora_group_size",
    "revision",
    "runtime_config",
];

/// Reads PEFT's `adapter_config.json` for a model of a shape: the rank, alpha, and the layers that its
/// `target_modules` name. With `use_rslora` alpha is over the root of the rank; the alpha that is returned is, as
/// everywhere here, over the rank.
///
/// # Errors
/// [`NnError::Mismatch`] for bytes that are no such file, modules that are none of the model, and a key that
/// changes the result in a way that is not known here.
///
/// ```
/// use hlx_nn::{CausalConfig, read_peft_config};
///
/// let mut config = CausalConfig::preset("gpt2").expect("a preset");
/// (config.n_layers, config.vocabulary) = (1, 100);
/// let text = br#"{"peft_type": "LORA", "r": 4, "lora_alpha": 8, "target_modules": ["c_attn"]}"#;
/// let lora = read_peft_config(text, &config)?;
/// assert_eq!((lora.rank, lora.alpha, lora.targets.len()), (4, 8.0, 3));
/// assert_eq!(lora.targets[0], "model.layers.0.self_attn.q_proj");
/// # Ok::<(), hlx_nn::NnError>(())
/// ```
pub fn read_peft_config(text: &[u8], config: &CausalConfig) -> Result<LoraConfig> {
    let read = || {
        let keys: Map<String, Value> = serde_json::from_slice(text).map_err(|e| e.to_string())?;
        read_keys(&keys, config)
    };
    read().map_err(|reason| NnError::mismatch(PEFT_CONFIG_FILE, reason))
}

/// Whether an `adapter_config.json` has an adapter of the output, for which a tied model has no layer of its own.
pub fn peft_adapts_output(text: &[u8]) -> bool {
    serde_json::from_slice(text).is_ok_and(|keys| names_head(&keys))
}

fn read_keys(keys: &Map<String, Value>, config: &CausalConfig) -> Result<LoraConfig, String> {
    let missing = |name: &str| format!("`{name}` is missing or no number");
    let rank = keys.get("r").and_then(Value::as_u64);
    let rank = rank.ok_or_else(|| missing("r"))? as usize;
    let stated = keys.get("lora_alpha").and_then(Value::as_f64);
    let stated = stated.ok_or_else(|| missing("lora_alpha"))?;
    if keys.get("peft_type").and_then(Value::as_str) != Some("LORA") {
        return Err("`peft_type` is not LORA".to_owned());
    }
    let task = keys.get("task_type").filter(|task| !task.is_null());
    if let Some(task) = task.filter(|task| *task != "CAUSAL_LM") {
        return Err(format!("`task_type` is {task}, expected CAUSAL_LM"));
    }
    let layers = layers_of(config).map_err(|error| error.to_string())?;
    let targets = targets_of(keys, &layers, config)?;
    let mut joined: BTreeMap<&str, usize> = BTreeMap::new();
    for (_, place) in layers.iter().filter(|(layer, _)| targets.contains(layer)) {
        *joined.entry(&place.name).or_default() += 1;
    }
    for (name, value) in [("rank_pattern", rank as f64), ("alpha_pattern", stated)] {
        check_pattern(keys, name, value, &joined)?;
    }
    check_others(keys)?;
    let alpha = match keys.get("use_rslora") {
        Some(Value::Bool(true)) => stated * (rank as f64).sqrt(),
        None | Some(Value::Null | Value::Bool(false)) => stated,
        Some(other) => return Err(format!("`use_rslora` is {other}, expected true or false")),
    };
    let lora = LoraConfig {
        rank,
        alpha,
        targets,
    };
    lora.check().map_err(|error| error.to_string())?;
    Ok(lora)
}

/// Refuses what is neither read nor without effect.
fn check_others(keys: &Map<String, Value>) -> Result<(), String> {
    for (name, value) in keys {
        let known = READ.contains(&name.as_str()) || WITHOUT_EFFECT.contains(&name.as_str());
        let is_usual = match name.as_str() {
            "bias" => value == "none",
            // Others begin by changing the model itself.
            "init_lora_weights" => {
                let known = ["gaussian", "orthogonal", "eva"];
                value == true || known.iter().any(|kind| value == kind)
            }
            // It says what becomes of the embedding where the output is trained.
            "ensure_weight_tying" => !names_head(keys),
            _ => false,
        };
        if known || is_usual || is_neutral(value) {
            continue;
        }
        return Err(match name.as_str() {
            "modules_to_save" => format!(
                "`modules_to_save` is {value}: layers trained as a whole are not known here; merge the \
                 adapter with PEFT (`merge_and_unload`)"
            ),
            _ => format!("`{name}` is {value}, which is not known here"),
        });
    }
    Ok(())
}

fn names_head(keys: &Map<String, Value>) -> bool {
    let targets = keys.get("target_modules").and_then(Value::as_array);
    targets.is_some_and(|targets| targets.iter().any(|one| one == HEAD))
}

/// Whether a key's value is that of a key that is left out.
fn is_neutral(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Bool(value) => !value,
        Value::Array(values) => values.is_empty(),
        Value::Object(values) => values.is_empty(),
        Value::Number(_) | Value::String(_) => false,
    }
}

/// The layers of a model with a matrix, and the modules of its family that they are.
fn layers_of(config: &CausalConfig) -> Result<Vec<(String, Place)>> {
    let mut builder = ParameterBuilder::new();
    CausalLm::new(&mut builder, config)?;
    let parameters = builder.declared_parameters();
    let of_layer = |one: &Parameter| {
        let layer = one.name().strip_suffix(".weight")?;
        let mut place = place_of(config.family(), one.name());
        place.name = place.name.strip_suffix(".weight")?.to_owned();
        (one.shape().len() == 2).then(|| (layer.to_owned(), place))
    };
    Ok(parameters.iter().filter_map(of_layer).collect())
}

/// Whether an entry is a module's whole name or its last parts.
fn names(entry: &str, module: &str) -> bool {
    let before = module.strip_suffix(entry);
    before.is_some_and(|before| before.is_empty() || before.ends_with('.'))
}

/// A list of names; PEFT takes a pattern for a text.
fn list<'a>(keys: &'a Map<String, Value>, name: &str) -> Result<Vec<&'a str>, String> {
    let found = keys.get(name).unwrap_or(&Value::Null);
    let entries = found.as_array().map(|all| all.iter().map(Value::as_str));
    let entries: Option<Vec<&str>> = entries.and_then(Iterator::collect);
    entries.ok_or_else(|| format!("`{name}` is {found}, expected a list of names"))
}

/// The layers that `target_modules` names, without those of `exclude_modules` and, where `layers_to_transform` says
/// which, of those layers alone.
fn targets_of(
    keys: &Map<String, Value>,
    layers: &[(String, Place)],
    config: &CausalConfig,
) -> Result<Vec<String>, String> {
    let entries = list(keys, "target_modules")?;
    for &entry in &entries {
        check_target(entry, layers, config)?;
    }
    let excluded = match keys.get("exclude_modules").is_none_or(is_neutral) {
        true => Vec::new(),
        false => list(keys, "exclude_modules")?,
    };
    let indices = indices_of(keys, config)?;
    let is_chosen = |place: &Place| {
        let is_named = |list: &[&str]| list.iter().any(|entry| names(entry, &place.name));
        let is_of_index = match &indices {
            Some(indices) => index_of(&place.name).is_some_and(|index| indices.contains(&index)),
            None => true,
        };
        is_named(&entries) && !is_named(&excluded) && is_of_index
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
    let tables = ["embed_tokens", "embed_positions", "wte", "wpe"];
    let last = entry.rsplit('.').next().unwrap_or(entry);
    if tables.contains(&last) {
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

/// Of patterns those alone are known that [`peft_config`](crate::peft_config) writes: a module of several layers has
/// as many times the rank and alpha.
fn check_pattern(
    keys: &Map<String, Value>,
    name: &str,
    value: f64,
    joined: &BTreeMap<&str, usize>,
) -> Result<(), String> {
    let pattern = keys.get(name).filter(|pattern| !is_neutral(pattern));
    let Some(pattern) = pattern else {
        return Ok(());
    };
    let mut entries = pattern.as_object().into_iter().flatten();
    let is_written = |(module, found): (&String, &Value)| {
        let parts = joined.get(module.as_str()).copied().unwrap_or(0);
        found.as_f64() == Some(value * parts as f64)
    };
    match pattern.is_object() && entries.all(is_written) {
        true => Ok(()),
        false => Err(format!("`{name}` is {pattern}, which is not known here")),
    }
}
