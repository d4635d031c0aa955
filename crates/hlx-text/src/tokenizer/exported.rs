//! The tokenizers of HLX itself in the form of a `tokenizer.json`, which other programs read.

use serde_json::{Map, Value, json};

use super::byte_level::char_of;
use super::{END, Kind, SEPARATOR, Tokenizer};

impl Tokenizer {
    /// The tokenizer as a `tokenizer.json` that `transformers` and the `tokenizers` crate read, with the same tokens: of
    /// a file its own bytes.
    pub fn to_tokenizer_json(&self) -> String {
        match &self.inner.kind {
            Kind::File(_) => self.inner.json.clone(),
            Kind::Bytes => pretty(bytes()),
            Kind::Characters(characters) => pretty(of_characters(characters.all())),
        }
    }
}

fn pretty(mut value: Value) -> String {
    value.sort_all_objects();
    // A tree of maps and texts has a JSON form.
    serde_json::to_string_pretty(&value).unwrap_or_default()
}

/// Pairs without a merge are the characters of the alphabet, one for each byte. The two special tokens stand for
/// themselves, so that no other text has their characters of the alphabet.
fn bytes() -> Value {
    let specials = [END, SEPARATOR].map(|byte| (byte, char::from(byte as u8).to_string()));
    let text = |byte: u8| match specials.iter().find(|(id, _)| *id == u32::from(byte)) {
        Some((_, text)) => text.clone(),
        None => char_of(byte).to_string(),
    };
    let vocab: Map<String, Value> = (0..=255).map(|byte| (text(byte), byte.into())).collect();
    let level = json!({"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": false, "use_regex": false});
    let mut all = tokenizer(vocab, &level, &level);
    let added = specials.iter().map(|(id, text)| {
        json!({
            "id": id, "content": text, "single_word": false, "lstrip": false, "rstrip": false,
            "normalized": false, "special": true,
        })
    });
    all["added_tokens"] = added.collect();
    all
}

fn of_characters(characters: &[char]) -> Value {
    let ids = characters.iter().zip(0_u32..);
    let vocab = ids.map(|(char, id)| (char.to_string(), id.into()));
    tokenizer(vocab.collect(), &Value::Null, &json!({"type": "Fuse"}))
}

fn tokenizer(vocab: Map<String, Value>, pre_tokenizer: &Value, decoder: &Value) -> Value {
    json!({
        "version": "1.0", "truncation": null, "padding": null, "added_tokens": [], "normalizer": null,
        "pre_tokenizer": pre_tokenizer, "post_processor": null, "decoder": decoder,
        "model": {
            "type": "BPE", "dropout": null, "unk_token": null, "continuing_subword_prefix": null,
            "end_of_word_suffix": null, "fuse_unk": false, "byte_fallback": false, "ignore_merges": false,
            "vocab": vocab, "merges": [],
        },
    })
}
