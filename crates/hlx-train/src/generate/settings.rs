//! What a model's folder says of generation: the tokens that end a text, and settings that no option stands for.

use std::path::Path;

use anyhow::{Context as _, Result, bail};
use hlx_core::files::{self, place};
use hlx_nn::CONFIG_FILE;
use hlx_text::Tokenizer;
use serde_json::Value;

use crate::sample::Sampling;

/// The file of the settings of `transformers`' generation.
const SETTINGS_FILE: &str = "generation_config.json";
/// The files of a model folder that may name tokens which end a text.
const END_FILES: [&str; 2] = [SETTINGS_FILE, CONFIG_FILE];

/// Settings that change a text in a way that HLX does not have, with the numbers by which they do not. Null,
/// false, nothing in a list and a key that is left out change nothing either.
const REFUSED: [(&str, f64); 27] = [
    ("bad_words_ids", 0.0),
    ("begin_suppress_tokens", 0.0),
    ("constraints", 0.0),
    ("diversity_penalty", 0.0),
    ("dola_layers", 0.0),
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

/// The object of a folder's file; `None` without the file.
fn read(folder: &Path, name: &str) -> Result<Option<Value>> {
    let path = place(folder, name);
    if !path.is_file() {
        return Ok(None);
    }
    let file = || path.display().to_string();
    let bytes = files::read_settings(&path).with_context(file)?;
    let value: Value = serde_json::from_slice(&bytes).with_context(file)?;
    match value.is_object() {
        true => Ok(Some(value)),
        false => bail!("{}: is no object", path.display()),
    }
}

/// The tokens that end a text: the tokenizer's own, and those that `generation_config.json` and `config.json`
/// of a folder name.
///
/// # Errors
/// A file that is no JSON object, and an `eos_token_id` that is neither a token's number nor a list of such.
pub fn end_tokens(folder: &Path, tokenizer: &Tokenizer) -> Result<Vec<u32>> {
    let mut tokens: Vec<u32> = tokenizer.specials().eos.into_iter().collect();
    for name in END_FILES {
        let Some(settings) = read(folder, name)? else {
            continue;
        };
        let named = &settings["eos_token_id"];
        let id = |value: &Value| u32::try_from(value.as_u64()?).ok();
        let ids: Option<Vec<u32>> = match named {
            Value::Null => Some(Vec::new()),
            Value::Array(several) => several.iter().map(id).collect(),
            one => id(one).map(|id| vec![id]),
        };
        let ids = ids.with_context(|| {
            let file = folder.join(name);
            format!(
                "{}: `eos_token_id` is {named}, expected a token's number or a list of them",
                file.display()
            )
        })?;
        tokens.extend(ids);
    }
    tokens.sort_unstable();
    tokens.dedup();
    Ok(tokens)
}

/// Checks that texts can be written as a folder's `generation_config.json` says. What the options stand for
/// (sampling and lengths) is theirs to say; a line is logged where the text would be drawn, or penalised, by
/// the file and is not by the options.
///
/// # Errors
/// A file that is no JSON object, and the first setting that changes a text in a way that is not known here.
pub fn check_settings(folder: &Path, sampling: &Sampling) -> Result<()> {
    let Some(settings) = read(folder, SETTINGS_FILE)? else {
        return Ok(());
    };
    let file = folder.join(SETTINGS_FILE);
    let file = file.display();
    for (name, usual) in REFUSED {
        let value = &settings[name];
        let is_usual = match value {
            Value::Null | Value::Bool(false) => true,
            Value::Array(values) => values.is_empty(),
            Value::Object(values) => values.is_empty(),
            Value::Number(number) => number.as_f64() == Some(usual),
            Value::Bool(true) | Value::String(_) => false,
        };
        if !is_usual {
            bail!("{file}: `{name}` is {value}, which is not known here");
        }
    }
    if settings["do_sample"] == true && sampling.temperature == 0.0 {
        tracing::warn!("{file}: `do_sample` is true; without --temperature no token is drawn");
    }
    let penalty = settings["repetition_penalty"].as_f64();
    if let Some(penalty) = penalty.filter(|&penalty| penalty != 1.0)
        && sampling.repetition_penalty == 1.0
    {
        tracing::warn!("{file}: `repetition_penalty` is {penalty}, and --repetition-penalty is 1");
    }
    Ok(())
}
