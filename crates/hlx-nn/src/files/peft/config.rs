//! PEFT's `adapter_config.json`: every key is followed, changes nothing, or is refused by its name.

use serde_json::{Map, Value};

use super::names::{PEFT_CONFIG_FILE, is_neutral, names_head};
use super::patterns::{self, Patterns};
use super::targets::{saved_of, targets_of};

use crate::error::NnError;
use crate::files::hugging_face::{Place, place_of};
use crate::layers::LoraConfig;
use crate::{CausalConfig, CausalLm, Parameter, ParameterBuilder, Result};

/// Keys that are read here.
const READ: [&str; 13] = [
    "alpha_pattern",
    "exclude_modules",
    "layers_pattern",
    "layers_to_transform",
    "lora_alpha",
    "modules_to_save",
    "peft_type",
    "r",
    "rank_pattern",
    "target_modules",
    "task_type",
    "use_dora",
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
/// `target_modules` name, with the ranks and alphas of patterns, and the modules that are trained as a whole.
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
    let parameters = places_of(config).map_err(|error| error.to_string())?;
    let layers = layers_of(&parameters);
    let targets = targets_of(keys, &layers, config)?;
    check_others(keys)?;
    let mut lora = LoraConfig {
        rank,
        alpha: stated,
        targets,
        rslora: is_true(keys, "use_rslora")?,
        dora: is_true(keys, "use_dora")?,
        modules_to_save: saved_of(keys, &parameters, config)?,
        ..LoraConfig::default()
    };
    let patterns = ["rank_pattern", "alpha_pattern"].map(|name| Patterns::read(keys, name));
    let [ranks, alphas] = patterns;
    patterns::apply(&mut lora, [&ranks?, &alphas?], &layers)?;
    lora.check().map_err(|error| error.to_string())?;
    Ok(lora)
}

/// The truth value of a key, false for one that is left out.
fn is_true(keys: &Map<String, Value>, name: &str) -> Result<bool, String> {
    match keys.get(name) {
        Some(Value::Bool(value)) => Ok(*value),
        None | Some(Value::Null) => Ok(false),
        Some(other) => Err(format!("`{name}` is {other}, expected true or false")),
    }
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
        return Err(format!("`{name}` is {value}, which is not known here"));
    }
    Ok(())
}

/// The parameters of a model: names, shapes, and where the files of its family have them.
fn places_of(config: &CausalConfig) -> Result<Vec<(Parameter, Place)>> {
    let mut builder = ParameterBuilder::new();
    CausalLm::new(&mut builder, config)?;
    let parameters = builder.declared_parameters().into_iter();
    let with_place = |one: Parameter| {
        let place = place_of(config.family(), one.name());
        (one, place)
    };
    Ok(parameters.map(with_place).collect())
}

/// The layers with a matrix, and the modules of the family that they are.
fn layers_of(parameters: &[(Parameter, Place)]) -> Vec<(String, Place)> {
    let of_layer = |(one, place): &(Parameter, Place)| {
        let layer = one.name().strip_suffix(".weight")?;
        let place = Place {
            name: place.name.strip_suffix(".weight")?.to_owned(),
            ..place.clone()
        };
        (one.shape().len() == 2).then(|| (layer.to_owned(), place))
    };
    parameters.iter().filter_map(of_layer).collect()
}
