//! The `config.json` of a file's metadata.

use serde_json::{Map, Value as Json, json};

use super::family::Family;
use super::keys::Keys;
use super::rope;
use crate::gguf::Gguf;
use crate::value::Value;

/// Layers of the models whose queries are scaled by the width over the heads.
const GEMMA2_27B: usize = 46;
const GEMMA3_27B: usize = 62;

/// Sizes that the tensors are checked by.
pub(super) struct Sizes {
    pub family: Family,
    pub n_heads: usize,
    pub n_kv_heads: usize,
    pub head_width: usize,
    pub n_experts: usize,
    pub n_layers: usize,
}

/// Reads the sizes and makes the configuration.
pub(super) fn config_of(file: &Gguf) -> Result<(Sizes, Json), String> {
    let metadata = file.metadata();
    let architecture = metadata
        .text("general.architecture")?
        .ok_or("`general.architecture` is missing")?;
    let family = Family::of(architecture)?;
    let keys = Keys::new(metadata, architecture);
    check_causal(&keys)?;
    let width = keys.need("embedding_length")?;
    let n_heads = keys.need_of_layers("attention.head_count")?;
    let n_layers = keys.need("block_count")?;
    let usual = width / n_heads.max(1);
    let head_width = keys.count("attention.key_length")?.unwrap_or(usual);
    let n_experts = keys.count("expert_count")?.unwrap_or(0);
    let n_kv_heads = keys.count_of_layers("attention.head_count_kv")?;
    keys.only("attention.value_length", head_width)?;
    let sizes = Sizes {
        family: of_llama(&keys, family, n_experts)?,
        n_heads,
        n_kv_heads: n_kv_heads.unwrap_or(n_heads),
        head_width,
        n_experts,
        n_layers,
    };
    let mut config = match family {
        Family::Gpt2 => gpt2(&keys, &sizes, width)?,
        _ => decoder(file, &keys, &sizes, width)?,
    };
    let (class, kind) = sizes.family.class();
    let vocabulary = rows_of(file, "token_embd.weight")?;
    let shared = json!({
        "architectures": [class], "model_type": kind, "vocab_size": vocabulary,
        "tie_word_embeddings": file.tensor("output.weight").is_none(), "torch_dtype": "float32",
    });
    config.extend(shared.as_object().cloned().unwrap_or_default());
    for (name, key) in [
        ("bos_token_id", "tokenizer.ggml.bos_token_id"),
        ("eos_token_id", "tokenizer.ggml.eos_token_id"),
        ("pad_token_id", "tokenizer.ggml.padding_token_id"),
    ] {
        if let Some(id) = metadata.count(key)?.filter(|&id| id < vocabulary) {
            config.insert(name.to_owned(), id.into());
        }
    }
    keys.finish()?;
    config.sort_keys();
    Ok((sizes, Json::Object(config)))
}

fn check_causal(keys: &Keys<'_>) -> Result<(), String> {
    match keys.truth("attention.causal")? {
        Some(false) => Err("`attention.causal` is false, and only causal models are known".into()),
        _ => Ok(()),
    }
}

/// The rows of a tensor that must be there.
fn rows_of(file: &Gguf, name: &str) -> Result<usize, String> {
    let tensor = file.tensor(name);
    let tensor = tensor.ok_or_else(|| format!("the tensor {name} is missing"))?;
    Ok(tensor.rows())
}

/// Llama's architecture is also that of Mixtral, which has experts, and of Mistral, where there is a window.
fn of_llama(keys: &Keys<'_>, family: Family, n_experts: usize) -> Result<Family, String> {
    Ok(match family {
        Family::Llama if n_experts > 0 => Family::Mixtral,
        Family::Llama if keys.get("attention.sliding_window").is_some() => Family::Mistral,
        other => other,
    })
}

fn gpt2(keys: &Keys<'_>, sizes: &Sizes, width: usize) -> Result<Map<String, Json>, String> {
    keys.only("attention.head_count_kv", sizes.n_heads)?;
    let config = json!({
        "n_embd": width, "n_head": sizes.n_heads, "n_layer": sizes.n_layers,
        "n_positions": keys.need("context_length")?, "n_inner": keys.need_of_layers("feed_forward_length")?,
        "layer_norm_epsilon": keys.number("attention.layer_norm_epsilon")?.unwrap_or(1e-5),
        "activation_function": "gelu_new",
    });
    Ok(config.as_object().cloned().unwrap_or_default())
}

fn decoder(
    file: &Gguf,
    keys: &Keys<'_>,
    sizes: &Sizes,
    width: usize,
) -> Result<Map<String, Json>, String> {
    let eps = keys.number("attention.layer_norm_rms_epsilon")?;
    let eps = eps.ok_or("`attention.layer_norm_rms_epsilon` is missing")?;
    keys.only("rope.dimension_count", sizes.head_width)?;
    let usual = match sizes.family {
        Family::Gemma3 => 1e6,
        _ => 10_000.0,
    };
    let theta = keys.number("rope.freq_base")?.unwrap_or(usual);
    let positions = keys.need("context_length")?;
    let mut config = json!({
        "hidden_size": width, "num_attention_heads": sizes.n_heads, "num_key_value_heads": sizes.n_kv_heads,
        "num_hidden_layers": sizes.n_layers, "head_dim": sizes.head_width,
        "intermediate_size": keys.need_of_layers("feed_forward_length")?,
        "max_position_embeddings": positions, "rms_norm_eps": eps, "rope_theta": theta,
    });
    let scaling = match file.tensor("rope_freqs.weight") {
        None => rope::scaling_of(keys)?,
        Some(tensor) if rope::scaling_of(keys)?.is_null() => {
            let n = tensor.shape().iter().product::<usize>();
            if n.checked_mul(2) != Some(sizes.head_width) || tensor.rows() != 1 {
                let found = tensor.shape();
                return Err(format!(
                    "the tensor rope_freqs.weight has shape {found:?}, expected [{}]",
                    sizes.head_width / 2
                ));
            }
            let factors = file.values(tensor).map_err(|error| error.to_string())?;
            rope::scaling_of_factors(&factors, theta, positions)?
        }
        Some(_) => return Err("has both `rope.scaling` and rope_freqs.weight".to_owned()),
    };
    if !scaling.is_null() {
        config["rope_scaling"] = scaling;
    }
    let mut config = config.as_object().cloned().unwrap_or_default();
    config.extend(of_family(file, keys, sizes, width)?);
    Ok(config)
}

/// What single families have.
fn of_family(
    file: &Gguf,
    keys: &Keys<'_>,
    sizes: &Sizes,
    width: usize,
) -> Result<Map<String, Json>, String> {
    let has = |name: &str| file.tensor(name).is_some();
    let config = match sizes.family {
        Family::Gpt2 => Json::Null,
        Family::Llama => json!({
            "hidden_act": "silu", "attention_bias": has("blk.0.attn_q.bias"), "mlp_bias": has("blk.0.ffn_up.bias"),
        }),
        Family::Mistral => json!({
            "hidden_act": "silu", "sliding_window": window_of(keys)?,
        }),
        Family::Mixtral => json!({
            "hidden_act": "silu", "sliding_window": window_of(keys)?, "num_local_experts": sizes.n_experts,
            "num_experts_per_tok": keys.need("expert_used_count")?,
        }),
        Family::Qwen2 => json!({"hidden_act": "silu", "use_sliding_window": false}),
        Family::Qwen3 => json!({
            "hidden_act": "silu", "use_sliding_window": false, "attention_bias": has("blk.0.attn_q.bias"),
        }),
        Family::Qwen3Moe => json!({
            "hidden_act": "silu", "use_sliding_window": false, "attention_bias": has("blk.0.attn_q.bias"),
            "num_experts": sizes.n_experts, "num_experts_per_tok": keys.need("expert_used_count")?,
            "moe_intermediate_size": keys.need_of_layers("expert_feed_forward_length")?, "norm_topk_prob": true,
            "decoder_sparse_step": 1, "mlp_only_layers": [],
        }),
        Family::Gemma2 | Family::Gemma3 => return gemma(keys, sizes, width),
    };
    Ok(config.as_object().cloned().unwrap_or_default())
}

/// The window; null for none.
fn window_of(keys: &Keys<'_>) -> Result<Json, String> {
    let window = keys.count("attention.sliding_window")?;
    Ok(window
        .filter(|&window| window > 0)
        .map_or(Json::Null, Json::from))
}

fn gemma(keys: &Keys<'_>, sizes: &Sizes, width: usize) -> Result<Map<String, Json>, String> {
    let is_second = sizes.family == Family::Gemma2;
    let is_27b = sizes.n_layers == if is_second { GEMMA2_27B } else { GEMMA3_27B };
    // The scale is no key of most files: as in llama.cpp, it is known by the number of layers.
    let scalar = match (keys.number("attention.scale")?, is_27b) {
        (Some(scale), _) if scale != 0.0 => 1.0 / (scale * scale),
        (_, true) => (width / sizes.n_heads.max(1)) as f64,
        (_, false) => sizes.head_width as f64,
    };
    let window = keys.count("attention.sliding_window")?;
    let mut config = json!({
        "hidden_activation": "gelu_pytorch_tanh", "query_pre_attn_scalar": scalar,
        "layer_types": layer_types(keys, sizes, window.is_some() || is_second)?,
        "sliding_window": window.unwrap_or(4096),
    });
    let caps = match is_second {
        true => [Some(50.0), Some(30.0)],
        false => [None, None],
    };
    let [attention, logits] = caps;
    let stated = keys.number("attn_logit_softcapping")?.or(attention);
    if is_second {
        config["attn_logit_softcapping"] = stated.into();
    } else if stated.is_some() {
        return Err("`gemma3.attn_logit_softcapping` is stated, and this model has none".into());
    }
    let stated = keys.number("final_logit_softcapping")?.or(logits);
    config["final_logit_softcapping"] = stated.into();
    let local = keys.number("rope.freq_base_swa")?;
    if !is_second {
        config["rope_local_base_freq"] = local.unwrap_or(10_000.0).into();
    } else if local.is_some() && local != keys.number("rope.freq_base")? {
        return Err("`gemma2.rope.freq_base_swa` differs from `gemma2.rope.freq_base`".into());
    }
    Ok(config.as_object().cloned().unwrap_or_default())
}

/// The kind of each layer: by default every second one of Gemma 2 and every sixth one of Gemma 3 has no window.
fn layer_types(
    keys: &Keys<'_>,
    sizes: &Sizes,
    has_window: bool,
) -> Result<Vec<&'static str>, String> {
    const NAME: &str = "attention.sliding_window_pattern";
    let usual = if sizes.family == Family::Gemma2 { 2 } else { 6 };
    // The list is as long as the model has layers, of which the tensors must be there.
    let n_layers = sizes.n_layers.min(crate::model::MAX_LAYERS);
    let windowed: Vec<bool> = match keys.get(NAME) {
        Some(Value::Array(list)) => {
            let list = list.as_truths().filter(|list| list.len() == n_layers);
            list.ok_or_else(|| format!("`{NAME}` is no list of {n_layers} truths"))?
        }
        _ => {
            // Of a pattern of 0 every layer has a window.
            let pattern = keys.count(NAME)?.unwrap_or(usual);
            (1..=n_layers)
                .map(|layer| !layer.is_multiple_of(pattern))
                .collect()
        }
    };
    let kind = |windowed| match windowed && has_window {
        true => "sliding_attention",
        false => "full_attention",
    };
    Ok(windowed.into_iter().map(kind).collect())
}
