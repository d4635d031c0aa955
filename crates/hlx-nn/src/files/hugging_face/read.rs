//! From Hugging Face's `config.json` to a [`CausalConfig`].

use std::rc::Rc;

use serde_json::{Map, Value, json};

use super::classes::{CLASSES, Class};
use super::keys::{Keys, Notes};
use super::layers::{experts_of, with_windows};
use super::object::parse_object;
use super::rotary::with_rotary;
use crate::limits::MAX_LAYERS;
use crate::{Architecture, CausalConfig, FeedForwardKind};

/// What a `config.json` says.
pub(super) struct Read {
    pub config: CausalConfig,
    /// A line for each statement that is not followed, and for each pair of which one is taken.
    pub notes: Vec<String>,
}

/// Reads the configuration's bytes.
pub(super) fn read_config(bytes: &[u8]) -> Result<Read, String> {
    let notes = Notes::default();
    let values = parse_object(bytes, &notes)?;
    let class = class_of(&values, &notes)?;
    let keys = Keys::new(values, class, &notes);
    let config = match class.architecture {
        Architecture::Gpt2 => gpt2(&keys)?,
        _ => decoder(&keys, class)?,
    };
    settle_dtypes(&keys);
    keys.finish()?;
    config.validate().map_err(|error| error.to_string())?;
    drop(keys);
    let notes = Rc::try_unwrap(notes).unwrap_or_default().into_inner();
    Ok(Read { config, notes })
}

/// The class, by `model_type` as in `transformers`; every name must be known.
fn class_of(values: &Map<String, Value>, notes: &Notes) -> Result<&'static Class, String> {
    let keys = Keys::inner(values.clone(), "", notes);
    let stated = keys.texts("architectures")?.unwrap_or_default();
    let known = |name: &str| {
        let names = || CLASSES.map(|class| class.name).join(", ");
        Class::named(name).ok_or_else(|| {
            format!(
                "the architecture {name} is not known; known are {}",
                names()
            )
        })
    };
    let named = stated.first().map(|name| known(name)).transpose()?;
    let kind = keys.text("model_type")?.map(known).transpose()?;
    keys.settle(
        ("model_type", kind.map(|class| class.kind)),
        ("architectures", named.map(|class| class.kind)),
    );
    kind.or(named)
        .ok_or_else(|| "neither `architectures` nor `model_type` says what the model is".to_owned())
}

/// The files' own types stay, so that neither key is followed; of two that differ one must be wrong.
fn settle_dtypes(keys: &Keys) {
    let [new, old] = ["dtype", "torch_dtype"].map(|name| keys.look(name).and_then(Value::as_str));
    if let (Some(new), Some(old)) = (new, old)
        && new != old
    {
        keys.note(format!(
            "`dtype` is {new} and `torch_dtype` {old}; the weights keep the type that their file has"
        ));
    }
}

/// Other programs write the positions under names that no class reads.
fn settle_lengths(keys: &Keys, max_positions: usize) {
    let taken = ("max_position_embeddings", Some(max_positions as f64));
    for name in [
        "max_seq_len",
        "max_sequence_length",
        "model_max_length",
        "seq_length",
    ] {
        let stated = keys.look(name).and_then(Value::as_f64);
        keys.settle(taken, (name, stated));
    }
}

/// A size of GPT-2 under its own name or the one that all models have, which wins.
fn size(keys: &Keys, own: &str, general: &str) -> Result<usize, String> {
    let stated = keys.count(general)?;
    if let Some(size) = stated {
        keys.settle((general, stated), (own, keys.count(own)?));
        return Ok(size);
    }
    keys.need(own)
}

fn gpt2(keys: &Keys) -> Result<CausalConfig, String> {
    let width = size(keys, "n_embd", "hidden_size")?;
    let n_heads = size(keys, "n_head", "num_attention_heads")?;
    let max_positions = size(keys, "n_positions", "max_position_embeddings")?;
    if let Some(context) = keys.number_of_any_class("n_ctx")? {
        let positions = Some(max_positions as f64);
        keys.settle(("n_positions", positions), ("n_ctx", Some(context)));
    }
    let feed_forward = match keys.text("activation_function")?.unwrap_or("gelu_new") {
        // One formula under several names.
        "gelu_new" | "gelu_pytorch_tanh" | "gelu_fast" => FeedForwardKind::GELUTanh,
        "gelu" => FeedForwardKind::GELU,
        other => {
            return Err(format!(
                "`activation_function` is {other}, expected gelu_new or gelu"
            ));
        }
    };
    for name in ["scale_attn_by_inverse_layer_idx", "add_cross_attention"] {
        keys.only(name, &json!(false))?;
    }
    let [residual, embedding, attention] = ["resid_pdrop", "embd_pdrop", "attn_pdrop"]
        .map(|name| Ok::<_, String>(keys.number(name)?.unwrap_or(0.1)));
    let (dropout, embedding) = (residual?, embedding?);
    if embedding != dropout {
        return Err(format!(
            "`embd_pdrop` is {embedding} and `resid_pdrop` {dropout}, expected one probability for both"
        ));
    }
    let scaled = keys.truth("scale_attn_weights")?.unwrap_or(true);
    Ok(CausalConfig {
        vocabulary: keys.need("vocab_size")?,
        width,
        n_layers: checked_layers("n_layer", size(keys, "n_layer", "num_hidden_layers")?)?,
        n_heads,
        n_kv_heads: n_heads,
        head_width: width / n_heads.max(1),
        feed_forward_width: keys.count("n_inner")?.unwrap_or(width.saturating_mul(4)),
        max_positions,
        norm_eps: keys.number("layer_norm_epsilon")?.unwrap_or(1e-5) as f32,
        feed_forward,
        attention_scale: (!scaled).then_some(1.0),
        tied_output: keys.truth("tie_word_embeddings")?.unwrap_or(true),
        dropout: dropout as f32,
        attention_dropout: attention? as f32,
        ..CausalConfig::of_family(Architecture::Gpt2)
    })
}

/// Llama and what came after it.
fn decoder(keys: &Keys, class: &Class) -> Result<CausalConfig, String> {
    let family = CausalConfig::of_family(class.architecture);
    let (width, n_heads) = (keys.need("hidden_size")?, keys.need("num_attention_heads")?);
    let n_layers = checked_layers("num_hidden_layers", keys.need("num_hidden_layers")?)?;
    keys.only("use_bidirectional_attention", &json!(false))?;
    // A null is the query heads', and a missing key what the class has.
    let usual = class
        .kv_heads
        .filter(|_| !keys.is_stated("num_key_value_heads"));
    let head_width = class.head_width.unwrap_or(width / n_heads.max(1));
    let sizes = CausalConfig {
        vocabulary: keys.need("vocab_size")?,
        width,
        n_layers,
        n_heads,
        n_kv_heads: keys
            .count("num_key_value_heads")?
            .or(usual)
            .unwrap_or(n_heads),
        head_width: keys.count("head_dim")?.unwrap_or(head_width),
        feed_forward_width: keys.need("intermediate_size")?,
        max_positions: keys.need("max_position_embeddings")?,
        norm_eps: keys
            .number("rms_norm_eps")?
            .map_or(class.norm_eps, |eps| eps as f32),
        feed_forward: feed_forward_of(keys, class)?,
        tied_output: keys
            .truth("tie_word_embeddings")?
            .unwrap_or(family.tied_output),
        attention_dropout: keys.number("attention_dropout")?.unwrap_or(0.0) as f32,
        experts: experts_of(keys, class)?,
        ..family
    };
    settle_lengths(keys, sizes.max_positions);
    let sizes = with_attention(keys, sizes, class)?;
    with_windows(keys, with_rotary(keys, sizes, class)?, class)
}

/// The number of layers, over which lists are made before the whole is checked.
fn checked_layers(name: &str, n_layers: usize) -> Result<usize, String> {
    match n_layers > MAX_LAYERS {
        true => Err(format!(
            "`{name}` is {n_layers}, expected at most {MAX_LAYERS}"
        )),
        false => Ok(n_layers),
    }
}

fn feed_forward_of(keys: &Keys, class: &Class) -> Result<FeedForwardKind, String> {
    let (name, other, usual) = match class.is_gemma() {
        true => ("hidden_activation", "hidden_act", "gelu_pytorch_tanh"),
        false => ("hidden_act", "hidden_activation", "silu"),
    };
    let found = keys.text(name)?.unwrap_or(usual);
    let beside = keys.look(other).and_then(Value::as_str);
    if let Some(beside) = beside.filter(|beside| *beside != found) {
        keys.note(format!(
            "`{other}` is {beside} and left out: {} reads `{name}`, which is {found}",
            class.name
        ));
    }
    match found {
        "silu" | "swish" => Ok(FeedForwardKind::SwiGlu),
        "gelu_pytorch_tanh" | "gelu_new" | "gelu_fast" => Ok(FeedForwardKind::GeGlu),
        unknown => Err(format!(
            "`{name}` is {unknown}, expected silu or gelu_pytorch_tanh"
        )),
    }
}

/// Biases, scale and soft caps.
fn with_attention(
    keys: &Keys,
    config: CausalConfig,
    class: &Class,
) -> Result<CausalConfig, String> {
    let bias = keys.truth("attention_bias")?.unwrap_or(false);
    let scale = match class.is_gemma() {
        // Square root and quotient are correctly rounded everywhere: the same bits on any host.
        true => Some(
            1.0 / keys
                .number("query_pre_attn_scalar")?
                .unwrap_or(256.0)
                .sqrt(),
        ),
        false => None,
    };
    let cap = |name: &str, usual: Option<f32>| match keys.is_stated(name) {
        true => Ok::<_, String>(keys.number(name)?.map(|cap| cap as f32)),
        false => Ok(usual),
    };
    let [of_attention, of_logits] = class.soft_caps;
    Ok(CausalConfig {
        qkv_bias: config.qkv_bias || bias,
        attention_out_bias: bias,
        feed_forward_bias: keys.truth("mlp_bias")?.unwrap_or(false),
        attention_scale: scale.map(|scale| scale as f32),
        attention_soft_cap: cap("attn_logit_softcapping", of_attention)?,
        logit_soft_cap: cap("final_logit_softcapping", of_logits)?,
        ..config
    })
}
