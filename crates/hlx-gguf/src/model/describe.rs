//! The metadata of a `config.json` as HLX writes it: every size is stated there.
//!
//! What files cannot say is left out here. `NewModel::config_as_read` shows what a reader makes of the rest, which the
//! writer of a model compares with it.

use serde_json::Value as Json;

use super::family::Family;
use super::rope::llama3_factors;
use crate::error::shown;
use crate::metadata::Metadata;

/// A configuration as metadata.
pub(super) struct Described {
    pub family: Family,
    pub metadata: Metadata,
    pub n_heads: usize,
    pub n_kv_heads: usize,
    pub n_layers: usize,
    /// Factors that divide the rotary frequencies.
    pub factors: Option<Vec<f32>>,
}

/// The metadata of one architecture under way.
struct Writer<'a> {
    config: &'a Json,
    architecture: &'static str,
    metadata: Metadata,
}

impl Writer<'_> {
    fn count(&self, key: &str) -> Result<u32, String> {
        let found = self.config[key]
            .as_u64()
            .and_then(|count| u32::try_from(count).ok());
        found.ok_or_else(|| format!("`{key}` is {}, expected a whole number", self.config[key]))
    }

    fn number(&self, key: &str) -> Result<f32, String> {
        let found = self.config[key].as_f64().map(|number| number as f32);
        found.ok_or_else(|| format!("`{key}` is {}, expected a number", self.config[key]))
    }

    fn set(&mut self, name: &str, value: impl Into<crate::value::Value>) {
        self.metadata
            .set(&format!("{}.{name}", self.architecture), value);
    }

    /// Copies counts from keys of the configuration to keys of the architecture.
    fn counts(&mut self, pairs: &[(&str, &str)]) -> Result<(), String> {
        for (name, key) in pairs {
            let count = self.count(key)?;
            self.set(name, count);
        }
        Ok(())
    }

    /// As [`Writer::counts`], with numbers, and only those that are there.
    fn numbers(&mut self, pairs: &[(&str, &str)]) -> Result<(), String> {
        for (name, key) in pairs {
            if !self.config[*key].is_null() {
                let number = self.number(key)?;
                self.set(name, number);
            }
        }
        Ok(())
    }
}

/// Makes the metadata of a configuration.
pub(super) fn describe(config: &Json) -> Result<Described, String> {
    let kind = config["model_type"].as_str().unwrap_or_default();
    let family = Family::of_type(kind)
        .ok_or_else(|| format!("a model of the type {} has no place in GGUF", shown(kind)))?;
    let mut writer = Writer {
        config,
        architecture: family.architecture(),
        metadata: Metadata::default(),
    };
    writer
        .metadata
        .set("general.architecture", family.architecture());
    writer.metadata.set("general.type", "model");
    writer.counts(&[("vocab_size", "vocab_size")])?;
    let (heads, layers) = match family {
        Family::Gpt2 => ("n_head", "n_layer"),
        _ => ("num_attention_heads", "num_hidden_layers"),
    };
    let (n_heads, n_layers) = (
        writer.count(heads)? as usize,
        writer.count(layers)? as usize,
    );
    if family == Family::Gpt2 {
        gpt2(&mut writer)?;
        return Ok(Described {
            family,
            metadata: writer.metadata,
            n_heads,
            n_kv_heads: n_heads,
            n_layers,
            factors: None,
        });
    }
    decoder(&mut writer)?;
    of_family(&mut writer, family)?;
    let factors = rotary(&mut writer)?;
    let n_kv_heads = writer.count("num_key_value_heads")? as usize;
    Ok(Described {
        family,
        metadata: writer.metadata,
        n_heads,
        n_kv_heads,
        n_layers,
        factors,
    })
}

fn gpt2(writer: &mut Writer<'_>) -> Result<(), String> {
    if writer.config["activation_function"] != "gelu_new" {
        let found = &writer.config["activation_function"];
        return Err(format!(
            "`activation_function` is {found}, and GGUF knows only gelu_new here"
        ));
    }
    writer.counts(&[
        ("context_length", "n_positions"),
        ("embedding_length", "n_embd"),
        ("block_count", "n_layer"),
        ("feed_forward_length", "n_inner"),
        ("attention.head_count", "n_head"),
    ])?;
    writer.numbers(&[("attention.layer_norm_epsilon", "layer_norm_epsilon")])
}

fn decoder(writer: &mut Writer<'_>) -> Result<(), String> {
    writer.counts(&[
        ("context_length", "max_position_embeddings"),
        ("embedding_length", "hidden_size"),
        ("block_count", "num_hidden_layers"),
        ("feed_forward_length", "intermediate_size"),
        ("attention.head_count", "num_attention_heads"),
        ("attention.head_count_kv", "num_key_value_heads"),
        ("attention.key_length", "head_dim"),
        ("attention.value_length", "head_dim"),
        ("rope.dimension_count", "head_dim"),
    ])?;
    writer.numbers(&[
        ("attention.layer_norm_rms_epsilon", "rms_norm_eps"),
        ("rope.freq_base", "rope_theta"),
        ("rope.freq_base_swa", "rope_local_base_freq"),
        ("attn_logit_softcapping", "attn_logit_softcapping"),
        ("final_logit_softcapping", "final_logit_softcapping"),
    ])
}

fn of_family(writer: &mut Writer<'_>, family: Family) -> Result<(), String> {
    let has_window = !writer.config["sliding_window"].is_null();
    match family {
        Family::Mistral | Family::Mixtral | Family::Gemma2 | Family::Gemma3 if has_window => {
            writer.counts(&[("attention.sliding_window", "sliding_window")])?;
        }
        _ => {}
    }
    if family.is_gemma() {
        pattern(writer, family);
    }
    let experts = match family {
        Family::Mixtral => "num_local_experts",
        Family::Qwen3Moe => "num_experts",
        _ => return Ok(()),
    };
    writer.counts(&[
        ("expert_count", experts),
        ("expert_used_count", "num_experts_per_tok"),
    ])?;
    if family == Family::Qwen3Moe {
        writer.counts(&[("expert_feed_forward_length", "moe_intermediate_size")])?;
    }
    Ok(())
}

/// The layers with a window, where they are not those that a reader takes without a list.
fn pattern(writer: &mut Writer<'_>, family: Family) {
    let every = if family == Family::Gemma2 { 2 } else { 6 };
    let types = writer.config["layer_types"].as_array();
    let windowed = types
        .into_iter()
        .flatten()
        .map(|one| one == "sliding_attention");
    let windowed: Vec<bool> = windowed.collect();
    let usual = |(layer, &windowed): (usize, &bool)| windowed != (layer + 1).is_multiple_of(every);
    if !windowed.iter().enumerate().all(usual) {
        writer.set("attention.sliding_window_pattern", windowed);
    }
}

/// The rotary scaling as keys, or as factors.
fn rotary(writer: &mut Writer<'_>) -> Result<Option<Vec<f32>>, String> {
    let scaling = &writer.config["rope_scaling"];
    let number = |key: &str| scaling[key].as_f64();
    let need = |key: &str| {
        let missing = || {
            format!(
                "`rope_scaling.{key}` is {}, expected a number",
                scaling[key]
            )
        };
        number(key).ok_or_else(missing)
    };
    let Some(kind) = scaling["rope_type"].as_str() else {
        return Ok(None);
    };
    match kind {
        "linear" => {
            let factor = need("factor")? as f32;
            writer.set("rope.scaling.type", "linear");
            writer.set("rope.scaling.factor", factor);
            Ok(None)
        }
        "yarn" => {
            let factor = need("factor")? as f32;
            let original = need("original_max_position_embeddings")? as u32;
            let [fast, slow] = [number("beta_fast"), number("beta_slow")];
            writer.set("rope.scaling.type", "yarn");
            writer.set("rope.scaling.factor", factor);
            writer.set("rope.scaling.original_context_length", original);
            for (name, beta) in [("yarn_beta_fast", fast), ("yarn_beta_slow", slow)] {
                if let Some(beta) = beta {
                    writer.set(&format!("rope.scaling.{name}"), beta as f32);
                }
            }
            Ok(None)
        }
        "llama3" => {
            let theta = f64::from(writer.number("rope_theta")?);
            let n = writer.count("head_dim")? as usize / 2;
            let low = need("low_freq_factor")?;
            let high = need("high_freq_factor")?;
            let original = need("original_max_position_embeddings")?;
            let factors = llama3_factors(n, theta, need("factor")?, [low, high], original);
            Ok(Some(factors))
        }
        "longrope" if scaling["short_factor"] == scaling["long_factor"] => {
            let factors = scaling["long_factor"].as_array().into_iter().flatten();
            let factors = factors.filter_map(|factor| Some(factor.as_f64()? as f32));
            Ok(Some(factors.collect()))
        }
        other => Err(format!(
            "`rope_scaling` is {}, which GGUF cannot state here",
            shown(other)
        )),
    }
}
