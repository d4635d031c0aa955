//! From a model to a Hugging Face folder.

use std::collections::HashMap;
use std::path::Path;

use hlx_core::Buffer;
use hlx_core::bytes::little_endian;
use safetensors::SafeTensorError;
use safetensors::tensor::{Dtype, TensorView};
use serde_json::{Map, Value, json};

use super::classes::CLASSES;
use super::names::place_of;
use super::{stored_shape, transposed};
use crate::error::NnError;
use crate::files::model_file::write_files;
use crate::{
    Architecture, CONFIG_FILE, CausalConfig, FeedForwardKind, MODEL_FILE, Positions, Result,
    RopeScaling, Rotary, Weights,
};

/// A tensor of a family's files: its name, shape and values.
pub type NamedTensor = (String, Vec<usize>, Vec<f32>);

/// Writes a model as a Hugging Face folder, `config.json` and `model.safetensors` in f32, which
/// `transformers` loads by `AutoModelForCausalLM.from_pretrained`. The folder is made if it is not there,
/// and files of these names are replaced together, as by [`save_model`](crate::save_model).
///
/// # Errors
/// [`NnError::Config`] for a model that its family cannot describe, [`NnError::File`] with the system's
/// reason, and what the device reports.
pub fn export_hugging_face(weights: &Weights, config: &CausalConfig, folder: &Path) -> Result<()> {
    write_files(folder, &hugging_face_files(weights, config)?)
}

/// The files of a Hugging Face folder, as [`export_hugging_face`] writes them: names and bytes.
///
/// # Errors
/// [`NnError::Config`] for a model that its family cannot describe, and what the device reports.
pub fn hugging_face_files(
    weights: &Weights,
    config: &CausalConfig,
) -> Result<[(&'static str, Vec<u8>); 2]> {
    let text = hugging_face_config(config)?;
    let tensors = hugging_face_tensors(weights, weights.values(), Some(config.architecture))?;
    Ok([(MODEL_FILE, to_safetensors(&tensors)?), (CONFIG_FILE, text)])
}

/// The bytes of the `config.json` that [`export_hugging_face`] writes of a model.
///
/// # Errors
/// [`NnError::Config`] for a model that its family cannot describe.
pub fn hugging_face_config(config: &CausalConfig) -> Result<Vec<u8>> {
    let text = write_config(config)?;
    // Read again, it must be the same model: nothing is left out that the family does not have.
    let read = super::read::read_config(text.as_bytes()).map_err(refused)?;
    let read = CausalConfig {
        layout: config.layout,
        ..read.config
    };
    if read != *config {
        let reason = format!(
            "a model of {:?} cannot have this shape",
            config.architecture
        );
        return Err(refused(reason));
    }
    Ok(text.into_bytes())
}

/// Whether a `config.json` is, byte for byte, the one that [`export_hugging_face`] writes of the model that it
/// describes: other programs write other keys.
pub fn is_exported_config(bytes: &[u8]) -> bool {
    let read = super::read::read_config(bytes).ok();
    let written = read.and_then(|read| write_config(&read.config).ok());
    written.is_some_and(|text| text.as_bytes() == bytes)
}

/// Returns what a flat buffer in the layout of the weights holds (the values, or the gradients) as the
/// tensors of a model's family: their names, their shapes, in the order of declaration. Without a family they are the
/// parameters under their own names.
///
/// # Errors
/// What the device reports.
pub fn hugging_face_tensors(
    weights: &Weights,
    flat: &Buffer,
    family: Option<Architecture>,
) -> Result<Vec<NamedTensor>> {
    let mut stored: Vec<(NamedTensor, bool)> = Vec::new();
    for (parameter, values) in weights.parameters().iter().zip(weights.download(flat)?) {
        let place = place_of(family, parameter.name());
        // Parts come in order, weights and biases alternately.
        match stored.iter_mut().rev().find(|one| one.0.0 == place.name) {
            Some(((_, _, whole), _)) => whole.extend(values),
            None => {
                let shape = stored_shape(parameter.shape(), &place);
                stored.push(((place.name, shape, values), place.transposed));
            }
        }
    }
    let transposed = |((name, shape, values), is_transposed): (NamedTensor, bool)| {
        let values = match (is_transposed, &shape[..]) {
            (true, &[rows, columns]) => transposed(&values, columns, rows),
            _ => values,
        };
        (name, shape, values)
    };
    Ok(stored.into_iter().map(transposed).collect())
}

/// The bytes of a safetensors file of f32.
pub(crate) fn to_safetensors(tensors: &[NamedTensor]) -> Result<Vec<u8>> {
    let bytes = tensors.iter().map(|(_, _, values)| little_endian(values));
    let bytes: Vec<_> = bytes.collect();
    let fail = |error: SafeTensorError| NnError::mismatch("safetensors", error.to_string());
    let mut views = Vec::with_capacity(tensors.len());
    for ((name, shape, _), bytes) in tensors.iter().zip(&bytes) {
        let view = TensorView::new(Dtype::F32, shape.clone(), bytes).map_err(fail)?;
        views.push((name.as_str(), view));
    }
    // `transformers` refuses files that do not say what they were written from.
    let metadata = HashMap::from([("format".to_owned(), "pt".to_owned())]);
    safetensors::serialize(views, Some(metadata)).map_err(fail)
}

/// The text of `config.json`.
fn write_config(config: &CausalConfig) -> Result<String> {
    let family = config.architecture;
    let class = CLASSES.iter().find(|class| class.architecture == family);
    let class = class.ok_or_else(|| refused(format!("{family:?} has no Hugging Face form")))?;
    let mut keys = match class.architecture {
        Architecture::Gpt2 => gpt2(config),
        _ => decoder(config),
    };
    keys.insert("architectures".to_owned(), json!([class.name]));
    keys.insert("model_type".to_owned(), json!(class.kind));
    keys.insert("torch_dtype".to_owned(), json!("float32"));
    keys.insert("tie_word_embeddings".to_owned(), json!(config.tied_output));
    keys.insert("vocab_size".to_owned(), json!(config.vocabulary));
    // A null is told apart from a missing key, for which a class may have a value.
    keys.retain(|name, value| !value.is_null() || class.has_usual(name));
    let mut file = Value::Object(keys);
    file.sort_all_objects();
    let text = serde_json::to_string_pretty(&file);
    Ok(text.map_err(|error| refused(error.to_string()))? + "\n")
}

fn gpt2(config: &CausalConfig) -> Map<String, Value> {
    let activation = match config.feed_forward {
        FeedForwardKind::GELU => "gelu",
        _ => "gelu_new",
    };
    object(json!({
        "activation_function": activation,
        "attn_pdrop": wide(config.attention_dropout),
        "embd_pdrop": wide(config.dropout),
        "layer_norm_epsilon": wide(config.norm_eps),
        "n_embd": config.width,
        "n_head": config.n_heads,
        "n_inner": config.feed_forward_width,
        "n_layer": config.n_layers,
        "n_positions": config.max_positions,
        "resid_pdrop": wide(config.dropout),
        "scale_attn_weights": config.attention_scale.is_none(),
    }))
}

fn decoder(config: &CausalConfig) -> Map<String, Value> {
    let gated = match config.feed_forward {
        FeedForwardKind::GeGlu => "gelu_pytorch_tanh",
        _ => "silu",
    };
    let gemma = matches!(
        config.architecture,
        Architecture::Gemma2 | Architecture::Gemma3
    );
    let activation = if gemma {
        "hidden_activation"
    } else {
        "hidden_act"
    };
    let mut keys = object(json!({
        "attention_bias": config.attention_out_bias,
        "attention_dropout": wide(config.attention_dropout),
        "head_dim": config.head_width,
        "hidden_size": config.width,
        "intermediate_size": config.feed_forward_width,
        "max_position_embeddings": config.max_positions,
        "num_attention_heads": config.n_heads,
        "num_hidden_layers": config.n_layers,
        "num_key_value_heads": config.n_kv_heads,
        "rms_norm_eps": wide(config.norm_eps),
        "attn_logit_softcapping": config.attention_soft_cap.map(wide),
        "final_logit_softcapping": config.logit_soft_cap.map(wide),
        activation: gated,
    }));
    if config.architecture == Architecture::Llama {
        keys.insert("mlp_bias".to_owned(), json!(config.feed_forward_bias));
    }
    if let Some(scale) = config.attention_scale.filter(|_| gemma) {
        // The square of 1 / scale, which is a whole number in every published model.
        let square = (1.0 / (f64::from(scale) * f64::from(scale))).round();
        keys.insert("query_pre_attn_scalar".to_owned(), json!(square as u64));
    }
    keys.extend(rotary(config));
    keys.extend(windows(config));
    keys.extend(experts(config));
    keys
}

fn rotary(config: &CausalConfig) -> Map<String, Value> {
    let Positions::Rotary(Rotary {
        theta,
        width,
        scaling,
    }) = &config.positions
    else {
        return Map::new();
    };
    let scaling = scaling.as_ref().map(|scaling| match scaling {
        RopeScaling::Linear { factor } => json!({"rope_type": "linear", "factor": factor}),
        RopeScaling::Dynamic { factor } => json!({"rope_type": "dynamic", "factor": factor}),
        RopeScaling::LongRope {
            original,
            short_factor,
            long_factor,
            attention_factor,
        } => json!({
            "rope_type": "longrope",
            "original_max_position_embeddings": original,
            "short_factor": short_factor,
            "long_factor": long_factor,
            "attention_factor": attention_factor,
        }),
        RopeScaling::Llama3 {
            factor,
            low_freq_factor,
            high_freq_factor,
            original,
        } => json!({
            "rope_type": "llama3",
            "factor": factor,
            "low_freq_factor": low_freq_factor,
            "high_freq_factor": high_freq_factor,
            "original_max_position_embeddings": original,
        }),
        RopeScaling::Yarn {
            factor,
            original,
            beta_fast,
            beta_slow,
            attention_factor,
            truncate,
        } => json!({
            "rope_type": "yarn",
            "factor": factor,
            "original_max_position_embeddings": original,
            "beta_fast": beta_fast,
            "beta_slow": beta_slow,
            "attention_factor": attention_factor,
            "truncate": truncate,
        }),
    });
    // No class rotates a part of each head: read again, it is another model, which is refused.
    let partial = width.map(|width| width as f64 / config.head_width as f64);
    let local = match &config.window_rotary {
        Some(local) if config.architecture == Architecture::Gemma3 => Some(local.theta),
        _ => None,
    };
    object(json!({
        "rope_theta": theta,
        "rope_scaling": scaling,
        "partial_rotary_factor": partial,
        "rope_local_base_freq": local,
    }))
}

fn windows(config: &CausalConfig) -> Map<String, Value> {
    let window = config.window;
    let kinds = (0..config.n_layers).map(|layer| match config.window_of(layer) {
        Some(_) => "sliding_attention",
        None => "full_attention",
    });
    let kinds: Vec<&str> = kinds.collect();
    match config.architecture {
        Architecture::Qwen2 | Architecture::Qwen3 => object(json!({
            "layer_types": kinds,
            "use_sliding_window": window.is_some(),
            "sliding_window": window,
            "max_window_layers": config.full_layers.len(),
        })),
        Architecture::Qwen3Moe => object(json!({
            "use_sliding_window": window.is_some(),
            "sliding_window": window,
        })),
        Architecture::Gemma2 | Architecture::Gemma3 => object(json!({
            "layer_types": kinds,
            "sliding_window": window,
        })),
        // With a list, `transformers` takes its class Ministral.
        Architecture::Mistral if !config.full_layers.is_empty() => object(json!({
            "layer_types": kinds,
            "sliding_window": window,
        })),
        Architecture::Mistral | Architecture::Mixtral => {
            Map::from_iter([("sliding_window".to_owned(), json!(window))])
        }
        _ => Map::new(),
    }
}

fn experts(config: &CausalConfig) -> Map<String, Value> {
    let Some(experts) = &config.experts else {
        return Map::new();
    };
    match config.architecture {
        Architecture::Mixtral => object(json!({
            "num_local_experts": experts.n_experts,
            "router_aux_loss_coef": wide(experts.balance_coefficient),
            "num_experts_per_tok": experts.per_token,
        })),
        _ => object(json!({
            "num_experts": experts.n_experts,
            "router_aux_loss_coef": wide(experts.balance_coefficient),
            "num_experts_per_tok": experts.per_token,
            "moe_intermediate_size": experts.width,
            "norm_topk_prob": experts.renormalised,
            "mlp_only_layers": experts.dense_layers,
            "decoder_sparse_step": 1,
        })),
    }
}

/// An f32 as the shortest decimal number that reads back as it.
fn wide(value: f32) -> f64 {
    value.to_string().parse().unwrap_or(f64::from(value))
}

fn object(value: Value) -> Map<String, Value> {
    match value {
        Value::Object(keys) => keys,
        _ => Map::new(),
    }
}

fn refused(reason: String) -> NnError {
    NnError::Config {
        what: "Hugging Face export",
        reason,
    }
}
