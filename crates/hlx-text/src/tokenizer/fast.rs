//! Byte-level BPE without regular expressions, for the tokenizers whose words [`split`](super::split)
//! knows: the same tokens as the `tokenizers` crate's, several times as fast.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};
use std::sync::{Mutex, PoisonError};

use serde::Deserialize;
use serde_json::Value;

use super::byte_level::alphabet;
use super::split::{Pattern, words};

/// A longer word is left to the `tokenizers` crate, whose time does not grow with its square.
const MAX_WORD: usize = 512;
/// Added tokens that begin with one byte: all of them are looked for at each such byte of a text.
const MAX_ADDED: usize = 8192;
/// Bytes of words and tokens that a cache holds before it is cleared.
const CACHE_BYTES: usize = 32 << 20;

/// What `tokenizer.json` says of a model of pairs.
#[derive(Deserialize)]
struct Bpe {
    dropout: Option<f32>,
    continuing_subword_prefix: Option<String>,
    end_of_word_suffix: Option<String>,
    #[serde(default)]
    byte_fallback: bool,
    #[serde(default)]
    ignore_merges: bool,
    vocab: HashMap<String, u32>,
    merges: Vec<Merge>,
}

/// A merge, as one text or as two.
#[derive(Deserialize)]
#[serde(untagged)]
enum Merge {
    Joined(String),
    Pair(String, String),
}

type Map<K, V> = HashMap<K, V, BuildHasherDefault<WordHasher>>;

/// The encoder.
pub(super) struct FastBpe {
    pattern: Pattern,
    /// Whether only ASCII is encoded: other text may change under the normalizer.
    ascii_only: bool,
    bytes: [u32; 256],
    /// A pair of tokens to the rank of their merge and what they become.
    merges: Map<u64, (u32, u32)>,
    /// The tokens that whole words may be, where the model looks these up before it merges.
    whole: Option<Map<Box<[u8]>, u32>>,
    /// Texts with special meaning, by their first byte: what holds one is left to the crate.
    added: Vec<Vec<Box<[u8]>>>,
    caches: Mutex<Vec<Cache>>,
}

/// The tokens of words seen before.
#[derive(Default)]
struct Cache {
    words: Map<Box<[u8]>, Box<[u32]>>,
    bytes: usize,
}

impl FastBpe {
    /// Makes the encoder of a `tokenizer.json`, unless it is of another kind.
    pub fn new(json: &Value, added: impl Iterator<Item = String>) -> Option<Self> {
        let ascii_only = match &json["normalizer"] {
            Value::Null => false,
            normalizer if normalizer["type"] == "NFC" => true,
            _ => return None,
        };
        let pattern = pattern(&json["pre_tokenizer"])?;
        let model = &json["model"];
        if model["type"] != "BPE" {
            return None;
        }
        let model = Bpe::deserialize(model).ok()?;
        let none = |text: &Option<String>| text.as_ref().is_none_or(String::is_empty);
        let plain = none(&model.continuing_subword_prefix) && none(&model.end_of_word_suffix);
        if !plain || model.byte_fallback || model.dropout.is_some_and(|dropout| dropout > 0.0) {
            return None;
        }
        let added = by_first_byte(added);
        if added.iter().any(|texts| texts.len() > MAX_ADDED) {
            return None;
        }
        let alphabet = alphabet();
        let mut bytes = [0; 256];
        for (byte, char) in alphabet.iter().enumerate() {
            bytes[byte] = *model.vocab.get(char.encode_utf8(&mut [0; 4]) as &str)?;
        }
        Some(Self {
            pattern,
            ascii_only,
            bytes,
            merges: merges(&model)?,
            whole: model.ignore_merges.then(|| whole(&model, &alphabet)),
            added,
            caches: Mutex::default(),
        })
    }

    /// The tokens of a text; `None` where the text needs the crate.
    pub fn encode(&self, text: &str) -> Option<Vec<u32>> {
        if (self.ascii_only && !text.is_ascii()) || self.has_added(text.as_bytes()) {
            return None;
        }
        let lock = || self.caches.lock().unwrap_or_else(PoisonError::into_inner);
        let mut cache = lock().pop().unwrap_or_default();
        let mut tokens = Vec::with_capacity(text.len() / 3);
        let mut whole = true;
        for word in words(text, self.pattern) {
            let word = word.as_bytes();
            if let Some(known) = cache.words.get(word) {
                tokens.extend_from_slice(known);
                continue;
            }
            if word.len() > MAX_WORD {
                whole = false;
                break;
            }
            let merged = self.merge(word);
            tokens.extend_from_slice(&merged);
            cache.add(word, merged);
        }
        lock().push(cache);
        whole.then_some(tokens)
    }

    /// Joins the pair of the lowest rank, the leftmost of equals, until no pair has one.
    fn merge(&self, word: &[u8]) -> Vec<u32> {
        if let Some(&id) = self.whole.as_ref().and_then(|whole| whole.get(word)) {
            return vec![id];
        }
        let mut tokens: Vec<u32> = word
            .iter()
            .map(|&byte| self.bytes[usize::from(byte)])
            .collect();
        let rank = |left: u32, right: u32| self.merges.get(&pair(left, right)).copied();
        let mut ranks: Vec<Option<(u32, u32)>> = tokens
            .windows(2)
            .map(|both| rank(both[0], both[1]))
            .collect();
        loop {
            let places = ranks.iter().enumerate();
            let best = places.filter_map(|(at, rank)| rank.map(|(rank, id)| (rank, at, id)));
            let Some((_, at, id)) = best.min() else {
                return tokens;
            };
            tokens[at] = id;
            tokens.remove(at + 1);
            ranks.remove(at);
            if at < ranks.len() {
                ranks[at] = rank(id, tokens[at + 1]);
            }
            if at > 0 {
                ranks[at - 1] = rank(tokens[at - 1], id);
            }
        }
    }

    fn has_added(&self, text: &[u8]) -> bool {
        let begins = |(at, &byte): (usize, &u8)| {
            let texts = self.added[usize::from(byte)].iter();
            texts.into_iter().any(|added| text[at..].starts_with(added))
        };
        text.iter().enumerate().any(begins)
    }
}

impl Cache {
    fn add(&mut self, word: &[u8], tokens: Vec<u32>) {
        let bytes = word.len() + tokens.len() * 4 + 64;
        if self.bytes + bytes > CACHE_BYTES {
            self.words.clear();
            self.bytes = 0;
        }
        self.bytes += bytes;
        self.words.insert(word.into(), tokens.into());
    }
}

fn pair(left: u32, right: u32) -> u64 {
    u64::from(left) << 32 | u64::from(right)
}

/// How a pre-tokenizer splits, if it is one that [`words`] carries out.
fn pattern(json: &Value) -> Option<Pattern> {
    let byte_level = |json: &Value, use_regex: bool| {
        let regex = json.get("use_regex").is_none_or(|value| value == true);
        json["type"] == "ByteLevel" && json["add_prefix_space"] == false && regex == use_regex
    };
    if byte_level(json, true) {
        return Some(Pattern::Gpt2);
    }
    let steps = json["pretokenizers"].as_array()?;
    let [split, last] = &steps[..] else {
        return None;
    };
    let isolated = split["type"] == "Split"
        && split["behavior"] == "Isolated"
        && split["invert"] == false
        && json["type"] == "Sequence";
    match isolated && byte_level(last, false) {
        true => Pattern::of_regex(split["pattern"]["Regex"].as_str()?),
        false => None,
    }
}

fn merges(model: &Bpe) -> Option<Map<u64, (u32, u32)>> {
    let mut merges = Map::default();
    for (rank, merge) in model.merges.iter().enumerate() {
        let (left, right) = match merge {
            Merge::Joined(text) => text.split_once(' ')?,
            Merge::Pair(left, right) => (left.as_str(), right.as_str()),
        };
        let id = |text: &str| model.vocab.get(text).copied();
        let joined = id(&[left, right].concat())?;
        // If a pair is listed twice, the last rank counts, as in the crate.
        merges.insert(pair(id(left)?, id(right)?), (rank as u32, joined));
    }
    Some(merges)
}

/// The tokens of the vocabulary as bytes.
fn whole(model: &Bpe, alphabet: &[char; 256]) -> Map<Box<[u8]>, u32> {
    let bytes: HashMap<char, u8> = (0..=255)
        .map(|byte| (alphabet[usize::from(byte)], byte))
        .collect();
    let read = |token: &str| {
        let read = token.chars().map(|char| bytes.get(&char).copied());
        read.collect::<Option<Box<[u8]>>>()
    };
    let tokens = model.vocab.iter();
    tokens
        .filter_map(|(token, &id)| Some((read(token)?, id)))
        .collect()
}

fn by_first_byte(added: impl Iterator<Item = String>) -> Vec<Vec<Box<[u8]>>> {
    let mut texts = vec![Vec::new(); 256];
    for text in added {
        let bytes: Box<[u8]> = text.into_bytes().into();
        if let Some(&first) = bytes.first() {
            texts[usize::from(first)].push(bytes);
        }
    }
    texts
}

/// A fast hash of short words and pairs; nothing depends on the order of a map.
#[derive(Default)]
pub(super) struct WordHasher(u64);

impl WordHasher {
    fn add(&mut self, word: u64) {
        let mixed = (self.0.rotate_left(5) ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        self.0 = mixed ^ mixed >> 32;
    }
}

impl Hasher for WordHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        let (words, rest) = bytes.as_chunks::<8>();
        words
            .iter()
            .for_each(|&word| self.add(u64::from_le_bytes(word)));
        let mut last = [0; 8];
        last[..rest.len()].copy_from_slice(rest);
        self.add(u64::from_le_bytes(last) ^ (bytes.len() as u64) << 56);
    }

    fn write_u64(&mut self, word: u64) {
        self.add(word);
    }

    fn write_usize(&mut self, word: usize) {
        self.add(word as u64);
    }
}
