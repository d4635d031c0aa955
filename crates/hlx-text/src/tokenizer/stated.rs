//! What `tokenizer_config.json` and `special_tokens_map.json` state of the tokenizer beside them, with the precedence
//! of `transformers`: with `added_tokens_decoder` in the former the latter is not read, without it the latter wins.

use std::path::Path;

use serde_json::{Map, Value};
use tokenizers::tokenizer::AddedToken;

use super::check::MAX_TOKENS;
use crate::{Result, TextError};

/// The file of a tokenizer's settings.
pub const TOKENIZER_CONFIG_FILE: &str = "tokenizer_config.json";
/// The file of special tokens of older versions of `transformers`.
pub const SPECIAL_TOKENS_MAP_FILE: &str = "special_tokens_map.json";

/// The special tokens that have a name of their own.
const NAMED: [&str; 7] = [
    "bos_token",
    "eos_token",
    "unk_token",
    "sep_token",
    "pad_token",
    "cls_token",
    "mask_token",
];
/// Further special tokens: a list, or an object of names and tokens.
const FURTHER: [&str; 2] = ["additional_special_tokens", "extra_special_tokens"];

/// The longest text of a token, in bytes.
const MAX_CONTENT: usize = 4096;

/// What the files state.
#[derive(Default)]
pub(super) struct Stated {
    /// The tokens that have a name, by it.
    named: Vec<(String, AddedToken)>,
    /// Special tokens without one.
    further: Vec<AddedToken>,
    /// `added_tokens_decoder`, in the order of the ids.
    pub added: Vec<(u32, AddedToken)>,
    /// `add_bos_token` and `add_eos_token`.
    pub adds: [Option<bool>; 2],
    /// `add_prefix_space`.
    pub adds_blank: Option<bool>,
    /// `clean_up_tokenization_spaces`.
    pub cleans_up: bool,
    /// `split_special_tokens`.
    pub splits_specials: bool,
    /// What is decided between two statements, in lines.
    pub notes: Vec<String>,
}

impl Stated {
    /// Reads what the files hold; null stands for one that is not there.
    pub fn read(folder: &Path, config: &Value, map: &Value) -> Result<Self> {
        let file = |name: &str| folder.join(name);
        let mut stated = Self::default();
        let wrong = |reason| TextError::file(&file(TOKENIZER_CONFIG_FILE), reason);
        if let Some(config) = object(config, &file(TOKENIZER_CONFIG_FILE))? {
            stated.read_config(config).map_err(wrong)?;
        }
        if let Some(map) = object(map, &file(SPECIAL_TOKENS_MAP_FILE))? {
            let is_behind = config.get("added_tokens_decoder").is_some();
            let read = stated.read_map(map, is_behind);
            read.map_err(|reason| TextError::file(&file(SPECIAL_TOKENS_MAP_FILE), reason))?;
        }
        Ok(stated)
    }

    fn read_config(&mut self, config: &Map<String, Value>) -> Result<(), String> {
        self.named = tokens_of(config)?;
        self.further = further_of(config)?;
        for (id, token) in config
            .get("added_tokens_decoder")
            .and_then(Value::as_object)
            .into_iter()
            .flatten()
        {
            let known = id.parse().ok().filter(|&id| u64::from(id) < MAX_TOKENS);
            let wrong = || {
                format!(
                    "`added_tokens_decoder` has the id {id}, expected a number below {MAX_TOKENS}"
                )
            };
            let key = format!("added_tokens_decoder.{id}");
            if let Some(token) = token_of(&key, token, false)? {
                self.added.push((known.ok_or_else(wrong)?, token));
            }
        }
        self.added.sort_by_key(|(id, _)| *id);
        let flag = |key: &str| match config.get(key) {
            None | Some(Value::Null) => Ok(None),
            Some(Value::Bool(value)) => Ok(Some(*value)),
            Some(other) => Err(format!("`{key}` is {other}, expected true or false")),
        };
        self.adds = [flag("add_bos_token")?, flag("add_eos_token")?];
        self.adds_blank = flag("add_prefix_space")?;
        self.cleans_up = flag("clean_up_tokenization_spaces")?.unwrap_or(false);
        self.splits_specials = flag("split_special_tokens")?.unwrap_or(false);
        Ok(())
    }

    /// Reads the older file, whose tokens count where `tokenizer_config.json` has no `added_tokens_decoder`.
    fn read_map(&mut self, map: &Map<String, Value>, is_behind: bool) -> Result<(), String> {
        for (key, token) in tokens_of(map)? {
            let found = self.named.iter_mut().find(|(known, _)| *known == key);
            if let Some((_, known)) = &found
                && known.content != token.content
            {
                let (counts, other) = match is_behind {
                    true => (&known.content, &token.content),
                    false => (&token.content, &known.content),
                };
                let behind = match is_behind {
                    true => SPECIAL_TOKENS_MAP_FILE,
                    false => TOKENIZER_CONFIG_FILE,
                };
                self.notes.push(format!(
                    "`{key}` is `{counts}`, as transformers reads it; {behind} says `{other}`"
                ));
            }
            match found {
                _ if is_behind => {}
                Some((_, known)) => *known = token,
                None => self.named.push((key, token)),
            }
        }
        if !is_behind {
            self.further.extend(further_of(map)?);
        }
        Ok(())
    }

    /// The tokens that have a name, as texts.
    pub fn texts(&self) -> Vec<(String, String)> {
        let named = self.named.iter();
        let texts = named.map(|(name, token)| (name.clone(), token.content.clone()));
        texts.collect()
    }

    /// The text of a token that is named.
    pub fn token(&self, key: &str) -> Option<&str> {
        let found = self.named.iter().find(|(known, _)| known == key);
        found.map(|(_, token)| &token.content[..])
    }

    /// What `transformers` adds to the tokens of `tokenizer.json`, in its order: those of `added_tokens_decoder`,
    /// then special tokens that neither it nor `is_added` has.
    pub fn to_add(&self, is_added: impl Fn(&str) -> bool) -> Vec<AddedToken> {
        let is_named = |text: &str| self.named.iter().any(|(_, token)| token.content == text);
        let added = self.added.iter().map(|(_, token)| {
            let special = token.special || is_named(&token.content);
            AddedToken {
                special,
                ..token.clone()
            }
        });
        let mut all: Vec<AddedToken> = added.collect();
        let named = self.named.iter().map(|(_, token)| token);
        for token in named.chain(&self.further) {
            let is_known = all.iter().any(|one| one.content == token.content);
            if !is_known && !is_added(&token.content) {
                all.push(AddedToken {
                    special: true,
                    ..token.clone()
                });
            }
        }
        all
    }

    /// The name of a token's text, for messages.
    pub fn key_of(&self, text: &str) -> &str {
        let found = self.named.iter().find(|(_, token)| token.content == text);
        found.map_or("added_tokens_decoder", |(key, _)| key)
    }
}

fn object<'a>(value: &'a Value, file: &Path) -> Result<Option<&'a Map<String, Value>>> {
    match value {
        Value::Null => Ok(None),
        Value::Object(object) => Ok(Some(object)),
        _ => Err(TextError::file(file, "is no object")),
    }
}

/// The tokens of keys with names: those of every tokenizer, and those of its own.
fn tokens_of(object: &Map<String, Value>) -> Result<Vec<(String, AddedToken)>, String> {
    let mut tokens = Vec::new();
    for key in NAMED {
        if let Some(token) = token_of(key, object.get(key).unwrap_or(&Value::Null), true)? {
            tokens.push((key.to_owned(), token));
        }
    }
    let own = object.iter().filter(|(key, value)| {
        key.ends_with("_token") && !NAMED.contains(&&key[..]) && value.is_string()
    });
    for (key, value) in own {
        tokens.extend(token_of(key, value, true)?.map(|token| (key.clone(), token)));
    }
    Ok(tokens)
}

fn further_of(object: &Map<String, Value>) -> Result<Vec<AddedToken>, String> {
    let mut tokens = Vec::new();
    for key in FURTHER {
        let values: Vec<&Value> = match object.get(key) {
            None | Some(Value::Null) => Vec::new(),
            Some(Value::Array(values)) => values.iter().collect(),
            Some(Value::Object(values)) => values.values().collect(),
            Some(other) => return Err(format!("`{key}` is {other}, expected a list of tokens")),
        };
        for value in values {
            tokens.extend(token_of(key, value, true)?);
        }
    }
    Ok(tokens)
}

/// The token that a value states: a text, or an object with its content. Null and an empty text state none.
fn token_of(key: &str, value: &Value, special: bool) -> Result<Option<AddedToken>, String> {
    let content = match value {
        Value::Null => return Ok(None),
        Value::String(content) => content,
        Value::Object(object) => match object.get("content") {
            Some(Value::String(content)) => content,
            _ => return Err(format!("`{key}` has no text as its `content`")),
        },
        other => {
            return Err(format!(
                "`{key}` is {other}, expected a token's text or an object with its `content`"
            ));
        }
    };
    if content.is_empty() {
        return Ok(None);
    }
    if content.len() > MAX_CONTENT {
        let n = content.len();
        return Err(format!(
            "`{key}` has {n} bytes; at most {MAX_CONTENT} are allowed"
        ));
    }
    let flag = |name: &str| value.get(name).and_then(Value::as_bool);
    let special = special || flag("special").unwrap_or(false);
    let token = AddedToken::from(content.as_str(), special);
    Ok(Some(AddedToken {
        single_word: flag("single_word").unwrap_or(false),
        lstrip: flag("lstrip").unwrap_or(false),
        rstrip: flag("rstrip").unwrap_or(false),
        normalized: flag("normalized").unwrap_or(token.normalized),
        ..token
    }))
}
