//! The tokens of metadata: texts, kinds, scores, and those with special meanings.

use std::collections::HashMap;

use crate::error::shown;
use crate::metadata::Metadata;

/// More tokens than any vocabulary has: as many as hlx-text reads.
const MAX_TOKENS: usize = 1 << 24;

/// What a token is to the tokenizer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Normal,
    Unknown,
    Control,
    UserDefined,
    Unused,
    Byte,
}

/// The tokens with special meanings, by their names in `tokenizer_config.json` and in metadata.
const NAMED: [(&str, &str); 6] = [
    ("bos_token", "bos"),
    ("eos_token", "eos"),
    ("unk_token", "unknown"),
    ("pad_token", "padding"),
    ("sep_token", "seperator"),
    ("mask_token", "mask"),
];
/// Further tokens that end an answer.
const ENDS: [&str; 2] = ["eot", "eom"];

/// The tokens of a file.
pub(super) struct Tokens<'a> {
    pub texts: &'a [String],
    pub kinds: Vec<Kind>,
    /// By their texts.
    pub ids: HashMap<&'a str, usize>,
    /// The tokens with special meanings, by their names in `tokenizer_config.json`.
    pub named: Vec<(&'static str, usize)>,
    /// Tokens that end an answer, that which ends a text first.
    pub ends: Vec<usize>,
}

impl<'a> Tokens<'a> {
    pub fn of(metadata: &'a Metadata) -> Result<Self, String> {
        let texts = metadata.texts("tokenizer.ggml.tokens")?;
        let texts = texts.ok_or("`tokenizer.ggml.tokens` is missing")?;
        if texts.is_empty() || texts.len() > MAX_TOKENS {
            return Err(format!(
                "has {} tokens, expected 1 to {MAX_TOKENS}",
                texts.len()
            ));
        }
        let mut ids = HashMap::with_capacity(texts.len());
        for (id, text) in texts.iter().enumerate() {
            if let Some(before) = ids.insert(text.as_str(), id) {
                return Err(format!(
                    "the tokens {before} and {id} are both `{}`",
                    shown(text)
                ));
            }
        }
        let mut tokens = Self {
            kinds: kinds_of(metadata, texts.len())?,
            texts,
            ids,
            named: Vec::new(),
            ends: Vec::new(),
        };
        for (name, key) in NAMED {
            if let Some(id) = tokens.id_of(metadata, key)? {
                tokens.named.push((name, id));
            }
        }
        tokens.ends.extend(tokens.token("eos_token"));
        for key in ENDS {
            let id = tokens.id_of(metadata, key)?;
            let new = id.filter(|id| !tokens.ends.contains(id));
            tokens.ends.extend(new);
        }
        Ok(tokens)
    }

    /// The token of a key.
    fn id_of(&self, metadata: &Metadata, key: &str) -> Result<Option<usize>, String> {
        let key = format!("tokenizer.ggml.{key}_token_id");
        // Some files have 2^32 - 1 for none.
        let id = metadata.count(&key)?.filter(|&id| id != u32::MAX as usize);
        match id.filter(|&id| id >= self.texts.len()) {
            Some(id) => Err(format!(
                "`{key}` is {id}, and there are {} tokens",
                self.texts.len()
            )),
            None => Ok(id),
        }
    }

    /// The token of a name in `tokenizer_config.json`.
    pub fn token(&self, name: &str) -> Option<usize> {
        let found = self.named.iter().find(|(known, _)| *known == name);
        found.map(|(_, id)| *id)
    }

    /// Whether a token stands for no text: one of the control tokens, or one with a special meaning.
    pub fn is_special(&self, id: usize) -> bool {
        let named = self.named.iter().map(|(_, id)| id);
        let is_named = named.chain(&self.ends).any(|&one| one == id);
        is_named || matches!(self.kinds[id], Kind::Control | Kind::Unknown)
    }
}

fn kinds_of(metadata: &Metadata, n: usize) -> Result<Vec<Kind>, String> {
    const KEY: &str = "tokenizer.ggml.token_type";
    let Some(stated) = metadata.counts(KEY)? else {
        return Ok(vec![Kind::Normal; n]);
    };
    if stated.len() != n {
        let found = stated.len();
        return Err(format!("`{KEY}` has {found} numbers for {n} tokens"));
    }
    let kind = |number: u64| match number {
        1 => Ok(Kind::Normal),
        2 => Ok(Kind::Unknown),
        3 => Ok(Kind::Control),
        4 => Ok(Kind::UserDefined),
        5 => Ok(Kind::Unused),
        6 => Ok(Kind::Byte),
        other => Err(format!("`{KEY}` has {other}, expected 1 to 6")),
    };
    stated.into_iter().map(kind).collect()
}
