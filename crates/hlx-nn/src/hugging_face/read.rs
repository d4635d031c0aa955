//! From Hugging Face's `config.json` to a [`CausalConfig`].

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::keys::Keys;
use crate::limits::MAX_LAYERS;
use crate::{
    Architecture, CausalConfig, ExpertsConfig, FeedForwardKind, Positions, RopeScaling, Rotary,
};

/// The names of the models that can be read and written.
pub(super) const NAMES: [(Architecture, &str, &str); 9] = [
    (Architecture::Gpt2, "GPT2LMHeadModel", "gpt2"),
    (Architecture::Llama, "LlamaForCausalLM", "llama"),
    (Architecture::Mistral, "MistralForCausalLM", "mistral"),
    (Architecture::Mixtral, "MixtralForCausalLM", "mixtral"),
    (Architecture::Qwen2, "Qwen2ForCausalLM", "qwen2"),
    (Architecture::Qwen3, "Qwen3ForCausalLM", "qwen3"),
    (Architecture::Qwen3Moe, "Qwen3MoeForCausalLM", "qwen3_moe"),
    (Architecture::Gemma2, "Gemma2ForCausalLM", "gemma2"),
    (Architecture::Gemma3, "Gemma3ForCausalLM", "gemma3_text"),
];

/// Reads the configuration's bytes.
pub(super) fn read_config(bytes: &[u8]) -> Result<CausalConfig, String> {
    let value: Value = serde_json::from_slice(bytes).map_err(|error| error.to_string())?;
    let Value::Object(values) = value else {
        return Err("the file holds no object".to_owned());
    };
    let keys = Keys::new(values, "");
    let architecture = architecture_of(&keys)?;
    let config = match architecture {
        Architecture::Gpt2 => gpt2(&keys)?,
        _ => decoder(&keys, architecture)?,
    };
    keys.finish()?;
    config.validate().map_err(|error| error.to_string())?;
    Ok(config)
}

fn architecture_of(keys: &Keys) -> Result<Architecture, String> {
    let stated = keys.texts("architectures")?.unwrap_or_default();
    let kind = keys.text("model_type")?;
    let known = |name: &str| NAMES.iter().find(|row| row.1 == name || row.2 == name);
    let name = stated.first().map(String::as_str).or(kind);
    let name = name.ok_or("neither `architectures` nor `model_type` says what the model is")?;
    match known(name) {
        Some((architecture, ..)) => Ok(*architecture),
        None => Err(format!(
            "the architecture {name} is not known; known are {}",
            NAMES.map(|row| row.1).join(", ")
        )),
    }
}

fn gpt2(keys: &Keys) -> Result<CausalConfig, String> {
    let (width, n_heads) = (keys.need("n_embd")?, keys.need("n_head")?);
    let feed_forward = match keys.text("activation_function")?.unwrap_or("gelu_new") {
        "gelu_new" | "gelu_pytorch_tanh" => FeedForwardKind::GeluTanh,
        "gelu" => FeedForwardKind::Gelu,
        other => {
            return Err(format!(
                "`activation_function` is {other}, expected gelu_new or gelu"
            ));
        }
    };
    for name in ["scale_attn_by_inverse_layer_idx", "add_cross_attention"] {
        keys.only(name, &json!(false))?;
    }
    let dropout = keys.number("resid_pdrop")?.unwrap_or(0.1);
    keys.only("embd_pdrop", &json!(dropout))?;
    let scaled = keys.truth("scale_attn_weights")?.unwrap_or(true);
    Ok(CausalConfig {
        vocabulary: keys.need("vocab_size")?,
        width,
        n_layers: layers_of(keys, "n_layer")?,
        n_heads,
        n_kv_heads: n_heads,
        head_width: width / n_heads.max(1),
        feed_forward_width: keys.count("n_inner")?.unwrap_or(width.saturating_mul(4)),
        max_positions: keys.need("n_positions")?,
        norm_eps: keys.number("layer_norm_epsilon")?.unwrap_or(1e-5) as f32,
        feed_forward,
        attention_scale: (!scaled).then_some(1.0),
        tied_output: keys.truth("tie_word_embeddings")?.unwrap_or(true),
        dropout: dropout as f32,
        attention_dropout: keys.number("attn_pdrop")?.unwrap_or(0.1) as f32,
        ..CausalConfig::family(Architecture::Gpt2)
    })
}

/// Llama and what came after it.
fn decoder(keys: &Keys, architecture: Architecture) -> Result<CausalConfig, String> {
    let family = CausalConfig::family(architecture);
    let (width, n_heads) = (keys.need("hidden_size")?, keys.need("num_attention_heads")?);
    keys.only("pretraining_tp", &json!(1))?;
    keys.only("use_bidirectional_attention", &json!(false))?;
    keys.only("router_jitter_noise", &json!(0.0))?;
    let sizes = CausalConfig {
        vocabulary: keys.need("vocab_size")?,
        width,
        n_layers: layers_of(keys, "num_hidden_layers")?,
        n_heads,
        n_kv_heads: keys.count("num_key_value_heads")?.unwrap_or(n_heads),
        head_width: keys.count("head_dim")?.unwrap_or(width / n_heads.max(1)),
        feed_forward_width: keys.need("intermediate_size")?,
        max_positions: keys.need("max_position_embeddings")?,
        norm_eps: keys
            .number("rms_norm_eps")?
            .map_or(family.norm_eps, |eps| eps as f32),
        feed_forward: feed_forward_of(keys)?,
        tied_output: keys
            .truth("tie_word_embeddings")?
            .unwrap_or(family.tied_output),
        attention_dropout: keys.number("attention_dropout")?.unwrap_or(0.0) as f32,
        experts: experts_of(keys, architecture)?,
        ..family
    };
    with_windows(keys, with_rotary(keys, with_attention(keys, sizes)?)?)
}

/// The number of layers, over which lists are made before the whole is checked.
fn layers_of(keys: &Keys, name: &str) -> Result<usize, String> {
    let n_layers = keys.need(name)?;
    match n_layers > MAX_LAYERS {
        true => Err(format!(
            "`{name}` is {n_layers}, expected at most {MAX_LAYERS}"
        )),
        false => Ok(n_layers),
    }
}

fn feed_forward_of(keys: &Keys) -> Result<FeedForwardKind, String> {
    let hidden = [keys.text("hidden_activation")?, keys.text("hidden_act")?];
    match hidden.into_iter().flatten().next().unwrap_or("silu") {
        "silu" => Ok(FeedForwardKind::SwiGlu),
        "gelu_pytorch_tanh" => Ok(FeedForwardKind::GeGlu),
        other => Err(format!(
            "`hidden_act` is {other}, expected silu or gelu_pytorch_tanh"
        )),
    }
}

/// Biases, scale and soft caps.
fn with_attention(keys: &Keys, config: CausalConfig) -> Result<CausalConfig, String> {
    let architecture = config.architecture;
    let bias = keys.truth("attention_bias")?.unwrap_or(false);
    let gemma = matches!(architecture, Architecture::Gemma2 | Architecture::Gemma3);
    let scale = match gemma {
        // Square root and quotient are correctly rounded everywhere: the same bits on any host.
        true => Some(
            1.0 / keys
                .number("query_pre_attn_scalar")?
                .unwrap_or(256.0)
                .sqrt(),
        ),
        false => None,
    };
    let caps = ["attn_logit_softcapping", "final_logit_softcapping"];
    let caps = caps.map(|name| Ok::<_, String>(keys.number(name)?.map(|cap| cap as f32)));
    let [attention_soft_cap, logit_soft_cap] = caps;
    Ok(CausalConfig {
        qkv_bias: config.qkv_bias || bias,
        attention_out_bias: bias,
        feed_forward_bias: keys.truth("mlp_bias")?.unwrap_or(false),
        attention_scale: scale.map(|scale| scale as f32),
        attention_soft_cap: attention_soft_cap?,
        logit_soft_cap: logit_soft_cap?,
        ..config
    })
}

/// Rotary positions in the form of `transformers` 4 (`rope_theta`, `rope_scaling`) or 5
/// (`rope_parameters`).
fn with_rotary(keys: &Keys, config: CausalConfig) -> Result<CausalConfig, String> {
    let gemma3 = config.architecture == Architecture::Gemma3;
    let partial = keys.number("partial_rotary_factor")?;
    let parameters = keys.object("rope_parameters", "rope_parameters.")?;
    let scaling = keys.object("rope_scaling", "rope_scaling.")?;
    let theta = keys.number("rope_theta")?;
    let local = keys.number("rope_local_base_freq")?;
    let usual = if gemma3 { 1e6 } else { 10_000.0 };
    let (global, local) = match parameters {
        Some(parameters) if gemma3 => {
            let part = |name, prefix| {
                let part = parameters.object(name, prefix)?;
                part.map(|part| rotary(Some(&part), None, partial, &config))
                    .transpose()
            };
            let global = part("full_attention", "rope_parameters.full_attention.")?;
            let local = part("sliding_attention", "rope_parameters.sliding_attention.")?;
            parameters.finish()?;
            let missing = "`rope_parameters.full_attention` is missing";
            (global.ok_or(missing)?, local)
        }
        Some(parameters) => (rotary(Some(&parameters), theta, partial, &config)?, None),
        None => {
            let theta = Some(theta.unwrap_or(usual));
            let local = gemma3.then(|| Rotary::plain(local.unwrap_or(10_000.0)));
            (rotary(scaling.as_ref(), theta, partial, &config)?, local)
        }
    };
    Ok(CausalConfig {
        positions: Positions::Rotary(global),
        window_rotary: local,
        ..config
    })
}

/// One set of rotary parameters.
fn rotary(
    keys: Option<&Keys>,
    theta: Option<f64>,
    partial: Option<f64>,
    config: &CausalConfig,
) -> Result<Rotary, String> {
    let own = keys
        .map(|keys| keys.number("rope_theta"))
        .transpose()?
        .flatten();
    let own_partial = keys
        .map(|keys| keys.number("partial_rotary_factor"))
        .transpose()?
        .flatten();
    let partial = own_partial.or(partial).unwrap_or(1.0);
    let turned = (config.head_width as f64 * partial) as usize;
    Ok(Rotary {
        theta: own.or(theta).unwrap_or(10_000.0),
        width: (turned != config.head_width).then_some(turned),
        scaling: match keys {
            Some(keys) => scaling_of(keys, config.max_positions)?,
            None => None,
        },
    })
}

fn scaling_of(keys: &Keys, max_positions: usize) -> Result<Option<RopeScaling>, String> {
    let kind = [keys.text("rope_type")?, keys.text("type")?];
    let original = || keys.need("original_max_position_embeddings");
    let scaling = match kind.into_iter().flatten().next().unwrap_or("default") {
        "default" => None,
        "linear" => Some(RopeScaling::Linear {
            factor: keys.need_number("factor")?,
        }),
        "llama3" => Some(RopeScaling::Llama3 {
            factor: keys.need_number("factor")?,
            low_freq_factor: keys.need_number("low_freq_factor")?,
            high_freq_factor: keys.need_number("high_freq_factor")?,
            original: original()?,
        }),
        "yarn" => {
            let factor = keys.need_number("factor")?;
            let stated = keys.count("original_max_position_embeddings")?;
            let usual = RopeScaling::yarn_attention_factor(factor);
            Some(RopeScaling::Yarn {
                factor,
                original: stated.unwrap_or(max_positions),
                beta_fast: keys.number("beta_fast")?.unwrap_or(32.0),
                beta_slow: keys.number("beta_slow")?.unwrap_or(1.0),
                attention_factor: keys.number("attention_factor")?.unwrap_or(usual),
                truncate: keys.truth("truncate")?.unwrap_or(true),
            })
        }
        "dynamic" => Some(RopeScaling::Dynamic {
            factor: keys.need_number("factor")?,
        }),
        "longrope" => {
            let stated = keys.count("original_max_position_embeddings")?;
            let original = stated.unwrap_or(max_positions);
            let factor = keys.number("factor")?;
            let factor = factor.unwrap_or(max_positions as f64 / original as f64);
            let usual = RopeScaling::long_rope_attention_factor(factor, original);
            Some(RopeScaling::LongRope {
                original,
                short_factor: keys.need_numbers("short_factor")?,
                long_factor: keys.need_numbers("long_factor")?,
                attention_factor: keys.number("attention_factor")?.unwrap_or(usual),
            })
        }
        other => {
            return Err(format!(
                "`rope_scaling` is of the type {other}, expected default, linear, dynamic, llama3, \
                 longrope or yarn"
            ));
        }
    };
    keys.finish()?;
    Ok(scaling)
}

fn experts_of(keys: &Keys, architecture: Architecture) -> Result<Option<ExpertsConfig>, String> {
    let mixtral = architecture == Architecture::Mixtral;
    if !mixtral && architecture != Architecture::Qwen3Moe {
        return Ok(None);
    }
    let n_experts = match keys.count("num_experts")? {
        Some(n_experts) => n_experts,
        None => keys.need("num_local_experts")?,
    };
    let per_token = keys.need("num_experts_per_tok")?;
    // What `transformers` takes where the key is missing.
    let balance_coefficient = keys.number("router_aux_loss_coef")?.unwrap_or(0.001) as f32;
    if mixtral {
        return Ok(Some(ExpertsConfig {
            n_experts,
            per_token,
            width: keys.need("intermediate_size")?,
            renormalised: true,
            balance_coefficient,
            dense_layers: Vec::new(),
        }));
    }
    let named = keys.counts("mlp_only_layers")?.unwrap_or_default();
    let named: BTreeSet<usize> = named.into_iter().collect();
    let step = keys.count("decoder_sparse_step")?.unwrap_or(1).max(1);
    let dense = |layer: &usize| named.contains(layer) || !(layer + 1).is_multiple_of(step);
    Ok(Some(ExpertsConfig {
        n_experts,
        per_token,
        width: keys.need("moe_intermediate_size")?,
        renormalised: keys.truth("norm_topk_prob")?.unwrap_or(false),
        balance_coefficient,
        dense_layers: (0..keys.need("num_hidden_layers")?).filter(dense).collect(),
    }))
}

/// The window, and the layers without.
fn with_windows(keys: &Keys, config: CausalConfig) -> Result<CausalConfig, String> {
    // What `transformers` takes where the key is missing.
    let usual = match config.architecture {
        Architecture::Llama | Architecture::Mixtral => None,
        _ => (!keys.is_stated("sliding_window")).then_some(4096),
    };
    let usual = keys.count("sliding_window")?.or(usual);
    let used = keys.truth("use_sliding_window")?;
    let first_windowed = keys.count("max_window_layers")?.unwrap_or(0);
    let types = keys.texts("layer_types")?;
    let pattern = keys.count("sliding_window_pattern")?;
    let (window, full): (_, Box<dyn Fn(usize) -> bool>) = match config.architecture {
        Architecture::Qwen2 | Architecture::Qwen3 => {
            let window = usual.filter(|_| used == Some(true));
            (window, Box::new(move |layer| layer < first_windowed))
        }
        Architecture::Qwen3Moe => (usual.filter(|_| used == Some(true)), Box::new(|_| false)),
        Architecture::Gemma2 => (usual, Box::new(|layer| layer % 2 == 1)),
        Architecture::Gemma3 => {
            let pattern = pattern.unwrap_or(6).max(1);
            (
                usual,
                Box::new(move |layer| (layer + 1).is_multiple_of(pattern)),
            )
        }
        _ => (usual, Box::new(|_| false)),
    };
    let mut full_layers: Vec<usize> = (0..config.n_layers).filter(|&layer| full(layer)).collect();
    if let Some(types) = types {
        if types.len() != config.n_layers {
            let (found, expected) = (types.len(), config.n_layers);
            return Err(format!(
                "`layer_types` names {found} layers, expected {expected}"
            ));
        }
        full_layers.clear();
        for (layer, kind) in types.iter().enumerate() {
            match kind.as_str() {
                "full_attention" => full_layers.push(layer),
                "sliding_attention" if window.is_some() => {}
                other => {
                    return Err(format!(
                        "`layer_types` has {other}, which has no meaning here"
                    ));
                }
            }
        }
    }
    let windowed = full_layers.len() < config.n_layers;
    let window = window.filter(|_| windowed);
    Ok(CausalConfig {
        full_layers: if window.is_some() {
            full_layers
        } else {
            Vec::new()
        },
        window,
        window_rotary: config.window_rotary.filter(|_| window.is_some()),
        ..config
    })
}
