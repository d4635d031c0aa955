//! The special tokens of a model in the files that are written of it, each of which states them in its own way.

use std::path::Path;

use anyhow::{Context as _, Result};
use hlx_core::warn_once;
use hlx_text::{SPECIAL_TOKENS_MAP_FILE, TOKENIZER_CONFIG_FILE, TOKENIZER_FILE, Tokenizer};
use serde_json::{Map, Value, json};

use crate::companions::{Companions, NamedFile};
use crate::config::Format;
use crate::data::END;
use crate::run::RunFolder;
use crate::special_tokens::{GENERATION_CONFIG_FILE, SpecialTokens, sorted_json};

/// The class by which every version of `transformers` reads a `tokenizer.json` as it is.
const TOKENIZER_CLASS: &str = "PreTrainedTokenizerFast";

/// The tokenizer of a model's folder, a run's or a GGUF file, if there is one, and the special tokens that are stated there. A file
/// that is no tokenizer goes with the model as it is, and is named in a line.
///
/// # Errors
/// As [`SpecialTokens::read`].
pub(super) fn tokenizer_of(folder: &Path) -> Result<(Option<Tokenizer>, SpecialTokens)> {
    let from = Companions::of(folder)?;
    if from.has(TOKENIZER_FILE) {
        let tokenizer = from.tokenizer();
        let tokenizer = tokenizer.inspect_err(|error| warn_once(&format!("{error:#}")));
        let tokenizer = tokenizer.ok().flatten();
        let specials = SpecialTokens::read(&from, tokenizer.as_ref())?;
        return Ok((tokenizer, specials));
    }
    let run = RunFolder::open_checkpoint(folder).and_then(|(run, _)| run.config());
    let format = run.ok().map(|config| config.data.format);
    let format = format.filter(|&format| format.is_of_texts() && format != Format::Shards);
    let Some(format) = format else {
        return Ok((None, SpecialTokens::read(&from, None)?));
    };
    // A run over bytes has no file of them. Pairs end with a byte, a text with none.
    let ends = format.is_of_pairs().then_some(u32::from(END));
    let specials = SpecialTokens {
        ends: ends.into_iter().collect(),
        ..SpecialTokens::default()
    };
    Ok((Some(Tokenizer::bytes()), specials))
}

/// Puts the tokens into `generation_config.json`.
///
/// # Errors
/// One that is no JSON object.
pub(super) fn state_generation(files: &mut Vec<NamedFile>, specials: &SpecialTokens) -> Result<()> {
    let before = files
        .iter()
        .position(|(name, _)| *name == GENERATION_CONFIG_FILE);
    if before.is_none() && specials.keys().is_empty() {
        return Ok(());
    }
    let before = before.map(|at| files.swap_remove(at).1);
    let bytes = specials.generation_config(before)?;
    files.push((GENERATION_CONFIG_FILE, bytes));
    Ok(())
}

/// Puts the tokens into a `config.json` without any, and leaves all else as it is written. Null says that there is
/// none: without a statement some classes of `transformers` have one.
pub(super) fn state_in_config(config: &mut Vec<u8>, specials: &SpecialTokens) {
    let keys = specials.keys().into_iter();
    let lines = keys.map(|(key, value)| format!("  \"{key}\": {value},\n"));
    let lines: String = lines.collect();
    if config.starts_with(b"{\n") {
        config.splice(2..2, lines.into_bytes());
    }
}

/// Writes a tokenizer as `transformers` reads it, and its settings, where there are none, with the special tokens.
///
/// # Errors
/// Settings that are no JSON object.
pub(super) fn state_tokenizer(
    files: &mut Vec<NamedFile>,
    tokenizer: &Tokenizer,
    specials: &SpecialTokens,
) -> Result<()> {
    files.retain(|(name, _)| *name != TOKENIZER_FILE);
    files.push((TOKENIZER_FILE, tokenizer.to_tokenizer_json().into_bytes()));
    let before = files
        .iter()
        .position(|(name, _)| *name == TOKENIZER_CONFIG_FILE);
    let has_settings = before.is_some();
    let mut settings: Map<String, Value> = match before {
        Some(at) => {
            serde_json::from_slice(&files.swap_remove(at).1).context(TOKENIZER_CONFIG_FILE)?
        }
        None => Map::new(),
    };
    // The name that version 5 gives the same class is not known to version 4.
    let is_new = |class: &Value| class == "TokenizersBackend";
    if settings.get("tokenizer_class").is_none_or(is_new) {
        settings.insert("tokenizer_class".to_owned(), TOKENIZER_CLASS.into());
    }
    let own = tokenizer.specials();
    let end = own.eos.filter(|end| specials.ends.contains(end));
    let texts = [
        ("bos_token", specials.bos),
        ("eos_token", end.or(specials.ends.first().copied())),
        ("pad_token", specials.pad),
    ];
    let text = |id: Option<u32>| {
        // The vocabulary of bytes has their characters.
        id.and_then(|id| tokenizer.id_to_token(id))
    };
    let texts = texts
        .into_iter()
        .filter_map(|(key, id)| Some((key, text(id)?)));
    let texts: Vec<(&str, String)> = texts.collect();
    for (key, text) in &texts {
        settings.entry(*key).or_insert_with(|| json!(text));
    }
    // Version 4 else gives the model `token_type_ids`, which `generate` refuses.
    let inputs = || json!(["input_ids", "attention_mask"]);
    settings.entry("model_input_names").or_insert_with(inputs);
    if !has_settings {
        settings.insert("clean_up_tokenization_spaces".to_owned(), false.into());
    }
    files.push((TOKENIZER_CONFIG_FILE, sorted_json(settings)?));
    let has_map = files
        .iter()
        .any(|(name, _)| *name == SPECIAL_TOKENS_MAP_FILE);
    if !has_settings && !has_map && !texts.is_empty() {
        let map = texts.into_iter();
        let map = map.map(|(key, text)| (key.to_owned(), json!(text)));
        files.push((SPECIAL_TOKENS_MAP_FILE, sorted_json(map.collect())?));
    }
    Ok(())
}

/// Logs a line where `transformers` 5 reads the tokenizer of a Qwen 2 with other words than its file has: it takes its
/// own class, whatever the settings say.
pub(super) fn warn_of_qwen2(tokenizer: &Tokenizer, folder: &Path) {
    let json: Value = serde_json::from_str(&tokenizer.to_tokenizer_json()).unwrap_or_default();
    let words = json["pre_tokenizer"]["pretokenizers"][0]["pattern"]["Regex"].as_str();
    let has_merges = json["model"]["merges"]
        .as_array()
        .is_some_and(|all| !all.is_empty());
    let is_own = words.is_some_and(|words| words.contains(r"|\p{N}|"));
    if has_merges && !is_own {
        warn_once(&format!(
            "{}: AutoTokenizer of transformers 5 reads the tokenizer of a Qwen 2 with Qwen's words; load it by \
             {TOKENIZER_CLASS}.from_pretrained",
            folder.display()
        ));
    }
}
