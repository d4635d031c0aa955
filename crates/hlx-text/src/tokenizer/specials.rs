//! The special tokens of a `tokenizer.json`, with what the files beside it state.

use tokenizers::tokenizer::AddedToken;
use tokenizers::{ModelWrapper, PreTokenizerWrapper, Tokenizer};

use super::SpecialTokens;
use super::stated::{Stated, TOKENIZER_CONFIG_FILE};

/// Names of tokens that end a document, where no configuration states one.
const END_NAMES: [&str; 6] = [
    "<|endoftext|>",
    "<|end_of_text|>",
    "<eos>",
    "</s>",
    "<|im_end|>",
    "<|eot_id|>",
];

/// Adds to a tokenizer the tokens that the files beside it state, as `transformers` does. Returns a line for each
/// kind of statement that the tokenizer's file contradicts.
pub(super) fn add_stated(inner: &mut Tokenizer, stated: &Stated) -> Result<Vec<String>, String> {
    inner.set_encode_special_tokens(stated.splits_specials);
    let known = inner.get_added_tokens_decoder();
    let own: Vec<&AddedToken> = known.values().collect();
    let of_file = |text: &str| own.iter().find(|token| token.content == text).copied();
    let adding = stated.to_add(|text| of_file(text).is_some());
    let mut notes = stated.notes.clone();
    let other = adding.iter().filter_map(|token| {
        let before = of_file(&token.content).filter(|before| *before != token)?;
        let flags = [before.special, token.special];
        Some((&token.content, flags))
    });
    let other: Vec<(&String, [bool; 2])> = other.collect();
    if let Some((text, flags)) = other.first() {
        let what = match flags[0] == flags[1] {
            true => "other properties".to_owned(),
            false => format!("`special` {}", flags[0]),
        };
        notes.push(format!(
            "`{text}` is as `added_tokens_decoder` has it; tokenizer.json has {what} for it{}",
            and_others(other.len())
        ));
    }
    let new = adding
        .iter()
        .filter(|token| inner.token_to_id(&token.content).is_none());
    let new: Vec<String> = new.map(|token| token.content.clone()).collect();
    inner
        .add_tokens(adding)
        .map_err(|error| error.to_string())?;
    if let Some(text) = new.first() {
        let id = inner.token_to_id(text).unwrap_or_default();
        notes.push(format!(
            "`{}` names `{text}`, which tokenizer.json does not have: it becomes the token {id}, as in \
             transformers{}",
            stated.key_of(text),
            and_others(new.len())
        ));
    }
    let moved = stated.added.iter().filter(|(id, token)| {
        !new.contains(&token.content) && inner.token_to_id(&token.content) != Some(*id)
    });
    let moved: Vec<_> = moved.collect();
    if let Some((id, token)) = moved.first() {
        notes.push(format!(
            "`added_tokens_decoder` gives `{}` the id {id}; in tokenizer.json it has {}, which counts{}",
            token.content,
            inner.token_to_id(&token.content).unwrap_or_default(),
            and_others(moved.len())
        ));
    }
    Ok(notes)
}

fn and_others(n: usize) -> String {
    match n {
        ..=1 => String::new(),
        n => format!(" (and {} more)", n - 1),
    }
}

/// The special tokens: those that are stated, and a usual end where none is.
pub(super) fn specials_of(inner: &Tokenizer, stated: &Stated) -> SpecialTokens {
    let added = inner.get_added_tokens_decoder();
    let special = added.iter().filter(|(_, token)| token.special);
    let mut all: Vec<u32> = special.map(|(&id, _)| id).collect();
    all.sort_unstable();
    let named = |key: &str| stated.token(key).and_then(|token| inner.token_to_id(token));
    let usual = || END_NAMES.iter().find_map(|name| inner.token_to_id(name));
    let eos = named("eos_token");
    SpecialTokens {
        bos: named("bos_token"),
        eos: eos.or_else(usual),
        eos_is_usual: eos.is_none(),
        pad: named("pad_token"),
        separator: None,
        all,
    }
}

/// Lines for statements of the settings that `tokenizer.json` decides, as in `transformers` 5, and says
/// otherwise. `surrounded` are the tokens of an empty text.
pub(super) fn contradictions(
    inner: &Tokenizer,
    stated: &Stated,
    specials: &SpecialTokens,
    surrounded: &[u32],
) -> Vec<String> {
    let ends = [
        ("add_bos_token", "begin", specials.bos, surrounded.first()),
        ("add_eos_token", "end", specials.eos, surrounded.last()),
    ];
    let mut notes = Vec::new();
    for ((key, verb, token, found), wanted) in ends.into_iter().zip(stated.adds) {
        let adds = token.is_some() && found.copied() == token;
        if let Some(wanted) = wanted.filter(|&wanted| wanted != adds) {
            let does = if adds { "does" } else { "does not" };
            notes.push(format!(
                "`{key}` is {wanted}; tokenizer.json, which counts as in transformers 5, {does} {verb} a text \
                 with this token"
            ));
        }
    }
    let blank = match inner.get_pre_tokenizer() {
        Some(PreTokenizerWrapper::ByteLevel(bytes)) => Some(bytes.add_prefix_space),
        _ => None,
    };
    if let (Some(wanted), Some(blank)) = (stated.adds_blank, blank)
        && wanted != blank
    {
        notes.push(format!(
            "`add_prefix_space` is {wanted}; it is {blank} in tokenizer.json, which counts"
        ));
    }
    if stated.cleans_up && is_bpe(inner) {
        notes.push(
            "`clean_up_tokenization_spaces` is true; it is not for BPE, as in transformers 5"
                .to_owned(),
        );
    }
    notes
}

/// Whether the model is one of pairs, whose texts have the blanks of what was encoded.
pub(super) fn is_bpe(inner: &Tokenizer) -> bool {
    matches!(inner.get_model(), ModelWrapper::BPE(_))
}

/// A line about `tokenizer_config.json` of a folder.
pub(super) fn line(folder: &str, note: &str) -> String {
    match folder {
        "" => format!("{TOKENIZER_CONFIG_FILE}: {note}"),
        folder => format!("{folder}/{TOKENIZER_CONFIG_FILE}: {note}"),
    }
}
