//! A `tokenizer.json` as metadata.

use std::collections::BTreeMap;

use serde_json::Value as Json;

use super::pre::Pre;
use super::tokens::Kind;
use crate::Result;
use crate::error::{GgufError, shown};
use crate::metadata::Metadata;

/// SentencePiece's score of a token that no pair makes, below those of pairs.
const NO_PAIR: f32 = -1e6;

/// A tokenizer that is to be written into a file.
#[derive(Clone, Copy, Debug, Default)]
pub struct NewTokenizer<'a> {
    /// The bytes of `tokenizer.json`.
    pub json: &'a [u8],
    /// The rows of the model's embedding: unused tokens fill the vocabulary up to them.
    pub vocabulary: usize,
    /// Begins a text.
    pub bos: Option<u32>,
    /// Ends a text.
    pub eos: Option<u32>,
    /// Ends a turn of a conversation, where that is another token.
    pub eot: Option<u32>,
    /// Fills rows.
    pub pad: Option<u32>,
    /// Whether a text begins with `bos`.
    pub adds_bos: bool,
    /// Whether a text ends with `eos`.
    pub adds_eos: bool,
    /// Lays out conversations.
    pub chat_template: Option<&'a str>,
}

impl NewTokenizer<'_> {
    /// Adds the tokenizer to metadata.
    ///
    /// # Errors
    /// [`GgufError::Argument`] for a tokenizer that is no list of pairs, or splits texts in a way that files have no
    /// name for; for more tokens than the model has.
    pub fn add_to(&self, metadata: &mut Metadata) -> Result<()> {
        let added = self.described(metadata);
        added.map_err(|reason| GgufError::argument("NewTokenizer::add_to", reason))
    }

    fn described(&self, metadata: &mut Metadata) -> Result<(), String> {
        let json: Json = serde_json::from_slice(self.json).map_err(|error| error.to_string())?;
        let model = &json["model"];
        if model["type"] != "BPE" {
            return Err(format!(
                "the tokenizer's model is {}, expected BPE",
                model["type"]
            ));
        }
        let vocabulary = Vocabulary::of(&json, self.vocabulary)?;
        let merges = merges_of(model)?;
        match model["byte_fallback"] == true || is_prepended(&json["normalizer"]).is_some() {
            true => pieces(metadata, &json, vocabulary, &merges)?,
            false => pairs(metadata, &json, vocabulary, &merges)?,
        }
        let ids = [
            ("bos", self.bos),
            ("eos", self.eos),
            ("eot", self.eot),
            ("padding", self.pad),
        ];
        for (name, id) in ids {
            if let Some(id) = id {
                metadata.set(&format!("tokenizer.ggml.{name}_token_id"), id);
            }
        }
        metadata.set("tokenizer.ggml.add_bos_token", self.adds_bos);
        metadata.set("tokenizer.ggml.add_eos_token", self.adds_eos);
        if let Some(template) = self.chat_template {
            metadata.set("tokenizer.chat_template", template);
        }
        Ok(())
    }
}

/// The tokens in the order of their ids.
struct Vocabulary {
    texts: Vec<String>,
    kinds: Vec<Kind>,
    ids: BTreeMap<String, usize>,
}

impl Vocabulary {
    fn of(json: &Json, n: usize) -> Result<Self, String> {
        let model = json["model"]["vocab"].as_object();
        let model = model.ok_or("the tokenizer's model has no `vocab`")?;
        let mut found: BTreeMap<usize, (String, Kind)> = BTreeMap::new();
        let id_of = |value: &Json| value.as_u64().and_then(|id| usize::try_from(id).ok());
        for (text, id) in model {
            let id = id_of(id).ok_or_else(|| format!("the token {} has no id", shown(text)))?;
            found.insert(id, (text.clone(), Kind::Normal));
        }
        for token in json["added_tokens"].as_array().into_iter().flatten() {
            let (id, text) = (id_of(&token["id"]), token["content"].as_str());
            let (Some(id), Some(text)) = (id, text) else {
                return Err("an added token has no id or no content".to_owned());
            };
            let kind = match token["special"] == true {
                true => Kind::Control,
                false => Kind::UserDefined,
            };
            found.insert(id, (text.to_owned(), kind));
        }
        if let Some((&last, _)) = found.last_key_value().filter(|(last, _)| **last >= n) {
            return Err(format!(
                "the tokenizer has a token {last}, and the model {n} tokens"
            ));
        }
        let unused = |id: usize| (format!("[PAD{id}]"), Kind::Unused);
        let all = (0..n).map(|id| found.remove(&id).unwrap_or_else(|| unused(id)));
        let (texts, kinds): (Vec<String>, Vec<Kind>) = all.unzip();
        let ids = texts.iter().cloned().zip(0..).collect();
        Ok(Self { texts, kinds, ids })
    }

    /// Puts the tokens into metadata.
    fn add_to(self, metadata: &mut Metadata) {
        let kinds = self.kinds.iter().map(|kind| match kind {
            Kind::Normal => 1,
            Kind::Unknown => 2,
            Kind::Control => 3,
            Kind::UserDefined => 4,
            Kind::Unused => 5,
            Kind::Byte => 6,
        });
        let kinds: Vec<i32> = kinds.collect();
        metadata.set("tokenizer.ggml.tokens", self.texts);
        metadata.set("tokenizer.ggml.token_type", kinds);
    }
}

/// The pairs, written as one text or as two.
fn merges_of(model: &Json) -> Result<Vec<[String; 2]>, String> {
    let merges = model["merges"].as_array().map_or(&[][..], Vec::as_slice);
    let pair = |merge: &Json| {
        let pair = match (merge.as_str(), merge.as_array().map(Vec::as_slice)) {
            (Some(text), _) => text.split_once(' '),
            (_, Some([left, right])) => left.as_str().zip(right.as_str()),
            _ => None,
        };
        let pair = pair.map(|(left, right)| [left.to_owned(), right.to_owned()]);
        pair.ok_or_else(|| format!("the pair {merge} is none"))
    };
    merges.iter().map(pair).collect()
}

/// Byte-level pairs.
fn pairs(
    metadata: &mut Metadata,
    json: &Json,
    vocabulary: Vocabulary,
    merges: &[[String; 2]],
) -> Result<(), String> {
    let ignores = json["model"]["ignore_merges"] == true;
    let of_bytes = json["pre_tokenizer"]["type"] == "ByteLevel";
    let pre = match (merges.is_empty() && of_bytes, ignores) {
        // Without pairs every split has the same tokens: the bytes.
        (true, false) => "gpt-2",
        _ => Pre::name_of(&json["pre_tokenizer"], &json["normalizer"], ignores)?,
    };
    metadata.set("tokenizer.ggml.model", "gpt2");
    metadata.set("tokenizer.ggml.pre", pre);
    vocabulary.add_to(metadata);
    let merges: Vec<String> = merges.iter().map(|pair| pair.join(" ")).collect();
    metadata.set("tokenizer.ggml.merges", merges);
    Ok(())
}

/// Whether a normalizer is SentencePiece's, and puts a blank in front.
fn is_prepended(normalizer: &Json) -> Option<bool> {
    let one = std::slice::from_ref(normalizer);
    let parts = normalizer["normalizers"]
        .as_array()
        .map_or(one, Vec::as_slice);
    let is_blank = |part: &Json| part["type"] == "Replace" && part["content"] == super::BLANK;
    match parts {
        [part] if is_blank(part) => Some(false),
        [front, part] if front["type"] == "Prepend" && is_blank(part) => Some(true),
        _ => None,
    }
}

/// SentencePiece's tokens, whose scores say which pair goes first.
fn pieces(
    metadata: &mut Metadata,
    json: &Json,
    mut vocabulary: Vocabulary,
    merges: &[[String; 2]],
) -> Result<(), String> {
    let prefix =
        is_prepended(&json["normalizer"]).ok_or("the normalizer is not SentencePiece's")?;
    let unknown = json["model"]["unk_token"].as_str();
    let mut scores = vec![NO_PAIR; vocabulary.texts.len()];
    for (id, text) in vocabulary.texts.iter().enumerate() {
        let is_byte = text.len() == 6 && text.starts_with("<0x") && text.ends_with('>');
        if Some(text.as_str()) == unknown {
            vocabulary.kinds[id] = Kind::Unknown;
            metadata.set("tokenizer.ggml.unknown_token_id", id as u32);
        } else if is_byte {
            vocabulary.kinds[id] = Kind::Byte;
        }
        if vocabulary.kinds[id] != Kind::Normal {
            scores[id] = 0.0;
        }
    }
    let mut last = usize::MAX;
    let mut score = 0.0;
    for pair in merges {
        let joined = pair.concat();
        let id = vocabulary.ids.get(&joined);
        let id = *id.ok_or_else(|| format!("no token is {}", shown(&joined)))?;
        // Pairs that make one token follow each other.
        if id != last {
            if scores[id] > NO_PAIR {
                let joined = shown(&joined);
                return Err(format!(
                    "pairs that make {joined} are joined at different times, which no score says"
                ));
            }
            score -= 1.0;
            (last, scores[id]) = (id, score);
        }
    }
    metadata.set("tokenizer.ggml.model", "llama");
    metadata.set("tokenizer.ggml.pre", "default");
    metadata.set("tokenizer.ggml.scores", scores);
    metadata.set("tokenizer.ggml.add_space_prefix", prefix);
    vocabulary.add_to(metadata);
    Ok(())
}
