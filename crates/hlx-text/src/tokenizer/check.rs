//! Whether a `tokenizer.json` is one that the crate `tokenizers` can be given.
//!
//! The crate expects files that it has written itself: others make it panic, abort by a lack of memory or of stack,
//! or take time without end. What can abort is refused here; the panics that are left become errors where the crate
//! is called. Parts are told by their keys, as the crate also reads parts that do not state their type.

use std::collections::HashSet;

use serde_json::{Map, Value};

/// Parts that a normalizer, a pre-tokenizer, a post-processor or a decoder may have.
const MAX_PARTS: usize = 64;
/// Sequences that may lie within each other.
const MAX_NESTED: usize = 4;
/// Bytes that normalizers and pre-tokenizers may make of one.
const MAX_GROWTH: usize = 256;
/// Bytes of an expression, of a prefix, and of a text that is put in the place of another.
const MAX_TEXT: usize = 4096;
/// Bytes that counts of a regular expression may make of it.
const MAX_REPEATED: usize = 1_000_000;
/// Characters of a word that WordPiece looks up piece by piece, in a time of their third power.
const MAX_WORD_PIECE: u64 = 1000;
/// Bytes of a piece of Unigram: a tree has a level for each.
const MAX_PIECE: usize = 256;
/// Every token is below it: tables of a model have as many rows.
pub const MAX_TOKENS: u64 = 1 << 24;

/// Keys of sequences.
const SEQUENCES: [&str; 4] = ["normalizers", "pretokenizers", "processors", "decoders"];

/// Checks a file.
///
/// # Errors
/// What is wrong with which part of it.
pub(super) fn check(json: &Value) -> Result<(), String> {
    let mut growth = 1;
    for part in parts("normalizer", &json["normalizer"])? {
        let factor = normalizer(part).map_err(|reason| format!("the normalizer {reason}"))?;
        growth = grown(growth, factor)?;
    }
    for part in parts("pre_tokenizer", &json["pre_tokenizer"])? {
        let factor = pre_tokenizer(part).map_err(|reason| format!("the pre-tokenizer {reason}"))?;
        growth = grown(growth, factor)?;
    }
    for part in parts("decoder", &json["decoder"])? {
        decoder(part).map_err(|reason| format!("the decoder {reason}"))?;
    }
    for part in parts("post_processor", &json["post_processor"])? {
        post_processor(part).map_err(|reason| format!("the post-processor {reason}"))?;
    }
    model(&json["model"]).map_err(|reason| format!("the model {reason}"))?;
    for token in json["added_tokens"].as_array().into_iter().flatten() {
        if token["id"].as_u64().is_some_and(|id| id >= MAX_TOKENS) {
            return Err(format!("an added token has the id {}", token["id"]));
        }
    }
    Ok(())
}

fn grown(growth: usize, factor: usize) -> Result<usize, String> {
    let growth = growth.saturating_mul(factor);
    match growth > MAX_GROWTH {
        true => Err(format!(
            "the normalizer and the pre-tokenizer may make {growth} bytes of one; at most {MAX_GROWTH} are allowed"
        )),
        false => Ok(growth),
    }
}

/// The parts of a sequence, of those within it, too.
fn parts<'a>(what: &str, value: &'a Value) -> Result<Vec<&'a Map<String, Value>>, String> {
    let mut found = Vec::new();
    let mut open = vec![(value, 0)];
    while let Some((value, depth)) = open.pop() {
        let Some(part) = value.as_object() else {
            continue;
        };
        let inner = SEQUENCES.iter().filter_map(|key| part.get(*key));
        let inner: Vec<&Value> = inner.filter_map(Value::as_array).flatten().collect();
        if depth > MAX_NESTED || found.len() + inner.len() > MAX_PARTS {
            return Err(format!(
                "`{what}` has more than {MAX_PARTS} parts, or more than {MAX_NESTED} sequences within each other"
            ));
        }
        open.extend(inner.iter().rev().map(|value| (*value, depth + 1)));
        found.push(part);
    }
    Ok(found)
}

fn text<'a>(part: &'a Map<String, Value>, key: &str) -> Option<&'a str> {
    part.get(key).and_then(Value::as_str)
}

fn short(part: &Map<String, Value>, key: &str) -> Result<usize, String> {
    let bytes = text(part, key).map_or(0, str::len);
    match bytes > MAX_TEXT {
        true => Err(format!(
            "has a `{key}` of {bytes} bytes; at most {MAX_TEXT} are allowed"
        )),
        false => Ok(bytes),
    }
}

fn is_type(part: &Map<String, Value>, name: &str) -> bool {
    text(part, "type") == Some(name)
}

/// Returns how many bytes one may become.
fn normalizer(part: &Map<String, Value>) -> Result<usize, String> {
    if part.get("prepend").is_some() && short(part, "prepend")? == 0 {
        return Err("prepends an empty text".to_owned());
    }
    if let Some(map) = text(part, "precompiled_charsmap") {
        return precompiled(map);
    }
    if is_type(part, "ByteLevel") {
        return Ok(2);
    }
    replacement(part)
}

/// Returns how many bytes one becomes where a text is put in the place of another.
fn replacement(part: &Map<String, Value>) -> Result<usize, String> {
    let Some(pattern) = part.get("pattern") else {
        return Ok(1);
    };
    let least = match (pattern["String"].as_str(), pattern["Regex"].as_str()) {
        (Some(text), _) => text.len(),
        (_, Some(regex)) => {
            expression(regex)?;
            // The crate reports no error where an expression meets its limit; expressions without look-around
            // and references have none.
            let parsed = regex_syntax::parse(regex).map_err(|_| {
                "replaces by an expression with look-around or references, which may meet a limit unseen".to_owned()
            })?;
            parsed.properties().minimum_len().unwrap_or(0)
        }
        _ => return Ok(1),
    };
    if least == 0 {
        return Err("replaces an empty text".to_owned());
    }
    Ok(short(part, "content")?.div_ceil(least).max(1))
}

/// The map of characters of SentencePiece: the length of a tree, the tree, and texts that end with a zero.
fn precompiled(map: &str) -> Result<usize, String> {
    let wrong = |reason: &str| format!("has a `precompiled_charsmap` that {reason}");
    let bytes = base64::decode(map).map_err(|_| wrong("is no base64"))?;
    let Some((head, rest)) = bytes.split_first_chunk::<4>() else {
        return Err(wrong("is empty"));
    };
    let tree_bytes = u32::from_le_bytes(*head) as usize;
    if !tree_bytes.is_multiple_of(4) || tree_bytes == 0 || tree_bytes > rest.len() {
        return Err(wrong(&format!(
            "states a tree of {tree_bytes} bytes in {}",
            rest.len()
        )));
    }
    let texts = rest[tree_bytes..].split(|&byte| byte == 0);
    Ok(texts.map(<[u8]>::len).max().unwrap_or(0).max(1))
}

fn pre_tokenizer(part: &Map<String, Value>) -> Result<usize, String> {
    if let Some(regex) = part
        .get("pattern")
        .and_then(|pattern| pattern["Regex"].as_str())
    {
        expression(regex)?;
    }
    if is_type(part, "FixedLength") && part.get("length").and_then(Value::as_u64) == Some(0) {
        return Err("cuts words of no characters".to_owned());
    }
    Ok(if is_type(part, "ByteLevel") { 2 } else { 1 })
}

fn decoder(part: &Map<String, Value>) -> Result<(), String> {
    for key in [
        "content",
        "prefix",
        "suffix",
        "pad_token",
        "word_delimiter_token",
    ] {
        short(part, key)?;
    }
    replacement(part).map(|_| ())
}

/// An expression whose compiled form is small.
fn expression(regex: &str) -> Result<(), String> {
    if regex.len() > MAX_TEXT {
        return Err(format!(
            "has an expression of {} bytes; at most {MAX_TEXT} are allowed",
            regex.len()
        ));
    }
    // Each count may stand for its part of the expression, and for the counts within it.
    let mut repeated = regex.len();
    let mut before = "";
    for (at, part) in regex.split('{').enumerate() {
        // `\x{3040}` is a character, `\p{L}` a class.
        let is_name = [r"\x", r"\u", r"\U", r"\p", r"\P"]
            .iter()
            .any(|name| before.ends_with(name));
        if at > 0 && !is_name {
            let count = part.split('}').next().unwrap_or_default();
            let numbers = count
                .split(',')
                .map(|number| number.trim().parse::<usize>().ok());
            let largest = numbers.flatten().max().unwrap_or(1).max(1);
            repeated = repeated.saturating_mul(largest);
        }
        before = part;
    }
    match repeated > MAX_REPEATED {
        true => Err(format!(
            "has an expression that counts make {repeated} bytes long; at most {MAX_REPEATED} are allowed"
        )),
        false => Ok(()),
    }
}

fn post_processor(part: &Map<String, Value>) -> Result<(), String> {
    for key in ["sep", "cls"] {
        let id = part.get(key).and_then(|token| token[1].as_u64());
        id.map_or(Ok(()), token_id)?;
    }
    let tokens = part.get("special_tokens").and_then(Value::as_object);
    for token in tokens.into_iter().flat_map(Map::values) {
        let list = |key: &str| token[key].as_array().map_or(&[][..], Vec::as_slice);
        let ids = list("ids");
        if ids.len() != list("tokens").len() || ids.len() > MAX_PARTS {
            return Err(format!("has {} ids for `{}`", ids.len(), token["id"]));
        }
        ids.iter()
            .filter_map(Value::as_u64)
            .try_for_each(token_id)?;
    }
    for key in ["single", "pair"] {
        let template = part.get(key).and_then(Value::as_array);
        let template = template.map_or(&[][..], Vec::as_slice);
        if template.len() > MAX_PARTS {
            return Err(format!("has a template of {} parts", template.len()));
        }
        for piece in template {
            let name = piece["SpecialToken"]["id"].as_str();
            if let Some(name) =
                name.filter(|name| !tokens.is_some_and(|all| all.contains_key(*name)))
            {
                return Err(format!("names the token `{name}`, which it does not state"));
            }
            if key == "single" && piece["Sequence"]["id"] == "B" {
                return Err("puts a second text behind a single one".to_owned());
            }
        }
    }
    Ok(())
}

fn token_id(id: u64) -> Result<(), String> {
    match id >= MAX_TOKENS {
        true => Err(format!("has a token {id}; tokens are below {MAX_TOKENS}")),
        false => Ok(()),
    }
}

fn model(model: &Value) -> Result<(), String> {
    let Some(part) = model.as_object() else {
        return Ok(());
    };
    for key in [
        "continuing_subword_prefix",
        "end_of_word_suffix",
        "unk_token",
    ] {
        short(part, key)?;
    }
    if let Some(longest) = part.get("max_input_chars_per_word").and_then(Value::as_u64)
        && longest > MAX_WORD_PIECE
    {
        return Err(format!(
            "cuts words of up to {longest} characters; at most {MAX_WORD_PIECE} are allowed"
        ));
    }
    match &model["vocab"] {
        Value::Object(vocab) => {
            vocabulary(vocab)?;
            let prefix = text(part, "continuing_subword_prefix").unwrap_or_default();
            merges(&model["merges"], prefix)
        }
        Value::Array(pieces) => pieces_of(pieces),
        _ => Ok(()),
    }
}

fn vocabulary(vocab: &Map<String, Value>) -> Result<(), String> {
    let mut seen = HashSet::with_capacity(vocab.len());
    for (token, id) in vocab {
        let Some(id) = id.as_u64() else {
            continue;
        };
        token_id(id)?;
        if !seen.insert(id) {
            return Err(format!(
                "gives the id {id} to `{token}` and to another token"
            ));
        }
    }
    Ok(())
}

/// The crate leaves the prefix of the second part out by its length alone.
fn merges(merges: &Value, prefix: &str) -> Result<(), String> {
    for merge in merges.as_array().into_iter().flatten() {
        let joined = merge.as_str().and_then(|text| text.split_once(' '));
        let second = merge[1].as_str().or(joined.map(|pair| pair.1));
        if second.is_some_and(|second| second.get(prefix.len()..).is_none()) {
            return Err(format!(
                "joins `{}`, which is shorter than the prefix `{prefix}`",
                second.unwrap_or_default()
            ));
        }
    }
    Ok(())
}

fn pieces_of(pieces: &[Value]) -> Result<(), String> {
    for piece in pieces {
        let bytes = piece[0].as_str().map_or(0, str::len);
        if bytes > MAX_PIECE {
            return Err(format!(
                "has a piece of {bytes} bytes; at most {MAX_PIECE} are allowed"
            ));
        }
    }
    Ok(())
}
