//! What a model's folder says of generation: the tokens that end a text, and settings that no option stands for.

use anyhow::{Result, bail};
use hlx_core::warn_once;
use serde_json::Value;

use crate::companions::Companions;
use crate::sample::Sampling;
use crate::special_tokens::GENERATION_CONFIG_FILE;

/// How texts are to be written, as options say.
#[derive(Clone, Copy, Debug)]
pub struct Wanted {
    /// How tokens are drawn.
    pub sampling: Sampling,
    /// Tokens at most.
    pub max_tokens: usize,
    /// Texts for each prompt.
    pub n_texts: usize,
}

/// Settings that name tokens, which [`SpecialTokens`](crate::special_tokens::SpecialTokens) reads.
const TOKENS: [&str; 3] = ["bos_token_id", "eos_token_id", "pad_token_id"];

/// Settings that options stand for: the setting and the option.
const OPTIONS: [(&str, &str); 9] = [
    ("do_sample", "temperature"),
    ("max_length", "max-tokens"),
    ("max_new_tokens", "max-tokens"),
    ("min_p", "min-p"),
    ("num_return_sequences", "samples"),
    ("repetition_penalty", "repetition-penalty"),
    ("temperature", "temperature"),
    ("top_k", "top-k"),
    ("top_p", "top-p"),
];

/// Settings that change no text of a model of one part: how it is computed, what is returned beside it, what is
/// known of another setting that is refused, and what only models with an encoder read.
const HARMLESS: [&str; 36] = [
    "_commit_hash",
    "_from_model_config",
    "assistant_confidence_threshold",
    "assistant_early_exit",
    "assistant_ensemble_weight",
    "assistant_lookbehind",
    "cache_config",
    "cache_implementation",
    "chat_format",
    "compile_config",
    "continuous_batching_config",
    "decoder_start_token_id",
    "disable_compile",
    "early_stopping",
    "is_assistant",
    "length_penalty",
    "low_memory",
    "max_cache_len",
    "max_matching_ngram_size",
    "num_assistant_tokens",
    "num_assistant_tokens_schedule",
    "output_attentions",
    "output_hidden_states",
    "output_logits",
    "output_scores",
    "prefill_chunk_size",
    "prompt_lookup_num_tokens",
    "remove_invalid_values",
    "renormalize_logits",
    "return_dict_in_generate",
    "return_legacy_cache",
    "speculation_type",
    "target_lookbehind",
    "transformers_version",
    "use_cache",
    "use_mtp",
];

/// Settings that change a text in a way that HLX does not have, with the numbers by which they do not. Null,
/// false, nothing in a list and a key that is left out change nothing either.
const REFUSED: [(&str, f64); 28] = [
    ("bad_words_ids", 0.0),
    ("begin_suppress_tokens", 0.0),
    ("constraints", 0.0),
    ("diversity_penalty", 0.0),
    ("dola_layers", 0.0),
    ("encoder_no_repeat_ngram_size", 0.0),
    ("encoder_repetition_penalty", 1.0),
    ("epsilon_cutoff", 0.0),
    ("eta_cutoff", 0.0),
    ("exponential_decay_length_penalty", 0.0),
    ("force_words_ids", 0.0),
    ("forced_bos_token_id", f64::NAN),
    ("forced_eos_token_id", f64::NAN),
    ("guidance_scale", 1.0),
    ("max_time", f64::NAN),
    ("min_length", 0.0),
    ("min_new_tokens", 0.0),
    ("no_repeat_ngram_size", 0.0),
    ("num_beam_groups", 1.0),
    ("num_beams", 1.0),
    ("penalty_alpha", 0.0),
    ("sequence_bias", 0.0),
    ("stop_strings", 0.0),
    ("suppress_tokens", 0.0),
    ("token_healing", 0.0),
    ("top_h", 1.0),
    ("typical_p", 1.0),
    ("watermarking_config", 0.0),
];

/// Checks that texts can be written as a folder's `generation_config.json` says. What the options stand for
/// (sampling and lengths) is theirs to say; a line is logged where the file says otherwise, and one for settings that
/// are not known.
///
/// # Errors
/// A file that is no JSON object, and the first setting that changes a text in a way that is not known here.
pub fn check_settings(from: &Companions, wanted: &Wanted) -> Result<()> {
    let Some(settings) = from.object(GENERATION_CONFIG_FILE)? else {
        return Ok(());
    };
    let file = from.named(GENERATION_CONFIG_FILE);
    for (name, usual) in REFUSED {
        let value = &settings[name];
        if !is_usual(value, usual) {
            bail!("{file}: `{name}` is {value}, which is not known here");
        }
    }
    let sampling = &wanted.sampling;
    if settings["do_sample"] == true && sampling.temperature == 0.0 {
        warn_once(&format!(
            "{file}: `do_sample` is true; without a temperature no token is drawn"
        ));
    }
    let penalty = settings["repetition_penalty"].as_f64();
    if let Some(penalty) = penalty.filter(|&penalty| penalty != 1.0)
        && sampling.repetition_penalty == 1.0
    {
        warn_once(&format!(
            "{file}: `repetition_penalty` is {penalty}, and the option repetition-penalty is 1"
        ));
    }
    let other = OPTIONS.iter().filter_map(|(name, option)| {
        let own = option_of(name, &settings, wanted)?;
        Some(format!(
            "`{name}` is {}, and the option {option} is {own}",
            settings[*name]
        ))
    });
    let other: Vec<String> = other.collect();
    if !other.is_empty() {
        warn_once(&format!("{file}: the options count: {}", other.join("; ")));
    }
    let unknown = settings.as_object().into_iter().flatten();
    let unknown = unknown.filter(|(name, value)| !value.is_null() && !is_known(name));
    let unknown: Vec<String> = unknown.map(|(name, _)| format!("`{name}`")).collect();
    if !unknown.is_empty() {
        warn_once(&format!(
            "{file}: {} changes nothing here",
            unknown.join(", ")
        ));
    }
    Ok(())
}

/// Whether a setting's value changes nothing.
fn is_usual(value: &Value, usual: f64) -> bool {
    match value {
        Value::Null | Value::Bool(false) => true,
        Value::Array(values) => values.is_empty(),
        Value::Object(values) => values.is_empty(),
        Value::Number(number) => number.as_f64() == Some(usual),
        Value::Bool(true) | Value::String(_) => false,
    }
}

/// What an option says where a setting says another thing that would count in `transformers`; how tokens are drawn
/// counts where they are.
fn option_of(name: &str, settings: &Value, wanted: &Wanted) -> Option<f64> {
    let value = settings[name].as_f64()?;
    let sampling = &wanted.sampling;
    let draws = settings["do_sample"] == true && sampling.temperature > 0.0;
    let own = match name {
        "max_new_tokens" => wanted.max_tokens as f64,
        "max_length" if settings["max_new_tokens"].is_null() => wanted.max_tokens as f64,
        "num_return_sequences" => wanted.n_texts as f64,
        "repetition_penalty" if sampling.repetition_penalty != 1.0 => {
            f64::from(sampling.repetition_penalty)
        }
        "temperature" if draws => f64::from(sampling.temperature),
        "top_k" if draws => sampling.top_k as f64,
        "top_p" if draws => f64::from(sampling.top_p),
        "min_p" if draws => f64::from(sampling.min_p),
        _ => return None,
    };
    // As f32, which options are; and printed as short as they are written.
    (own as f32 != value as f32).then(|| format!("{}", own as f32).parse().unwrap_or(own))
}

fn is_known(name: &str) -> bool {
    let named = TOKENS.iter().chain(&HARMLESS).copied();
    let refused = REFUSED.iter().map(|(name, _)| *name);
    let options = OPTIONS.iter().map(|(name, _)| *name);
    named
        .chain(refused)
        .chain(options)
        .any(|known| known == name)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    #[test]
    fn every_field_of_transformers_is_followed_harmless_refused_or_named() {
        let fields = include_str!("../../tests/fixtures/generation_fields.json");
        let fields: BTreeMap<String, Vec<Value>> = serde_json::from_str(fields).expect("fields");
        assert!(fields.len() > 70);
        for (name, usual) in &fields {
            assert!(is_known(name), "{name} is in no table");
            let refused = REFUSED.iter().find(|(known, _)| known == name);
            for value in usual {
                let changes = refused.is_some_and(|(_, number)| !is_usual(value, *number));
                assert!(!changes, "{name} {value} is what it is without a statement");
            }
        }
        assert!(!is_known("temperatur"));
    }
}
