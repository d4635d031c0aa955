//! Any `tokenizer.json`, by the `tokenizers` crate, and what lies beside it in a model's folder.

use std::fmt;
use std::path::Path;

use hlx_core::files::{self, place};
use serde_json::Value;
use tokenizers::Tokenizer;

use super::SpecialTokens;
use super::check::{MAX_TOKENS, check};
use super::encode::Steps;
use super::fast::FastBpe;
use crate::guard::guarded;
use crate::{Result, TextError};

/// Names of tokens that end a document, where no configuration states one.
const END_NAMES: [&str; 6] = [
    "<|endoftext|>",
    "<|end_of_text|>",
    "<eos>",
    "</s>",
    "<|im_end|>",
    "<|eot_id|>",
];

/// A tokenizer of a file.
pub(super) struct TokenizerFile {
    inner: Tokenizer,
    steps: Steps,
    fast: Option<FastBpe>,
    vocabulary_size: usize,
    chat_template: Option<String>,
}

/// What other files of the folder say of a tokenizer.
#[derive(Default)]
pub(super) struct Beside {
    /// `tokenizer_config.json`.
    config: Value,
    /// `chat_template.jinja`.
    chat_template: Option<String>,
}

impl Beside {
    /// Reads the files of a folder that are there.
    pub fn of(folder: &Path) -> Result<Self> {
        let read = |name: &str| {
            let path = place(folder, name);
            match files::read_settings_text(&path) {
                Ok(text) => Ok(Some(text)),
                Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
                Err(error) => Err(TextError::file(&path, error)),
            }
        };
        const CONFIG: &str = "tokenizer_config.json";
        let config = match read(CONFIG)? {
            Some(text) => serde_json::from_str(&text)
                .map_err(|error| TextError::file(&folder.join(CONFIG), error))?,
            None => Value::Null,
        };
        Ok(Self {
            config,
            chat_template: read("chat_template.jinja")?,
        })
    }

    /// The text of a special token: a string, or an object with its content.
    fn token(&self, key: &str) -> Option<&str> {
        let value = &self.config[key];
        value.as_str().or_else(|| value["content"].as_str())
    }

    fn template(&self) -> Option<String> {
        let configured = self.config["chat_template"].as_str();
        let own = self.chat_template.clone();
        own.or_else(|| configured.map(str::to_owned))
    }
}

impl TokenizerFile {
    /// Reads the text of a file.
    pub fn parse(text: &str, beside: &Beside) -> Result<(Self, SpecialTokens), String> {
        let json: Value = serde_json::from_str(text).map_err(|error| error.to_string())?;
        check(&json)?;
        guarded(|| Self::checked(text, &json, beside)).unwrap_or_else(|panic| Err(broken(&panic)))
    }

    /// Reads a file that [`check`] lets pass.
    fn checked(text: &str, json: &Value, beside: &Beside) -> Result<(Self, SpecialTokens), String> {
        let mut inner: Tokenizer = text
            .parse()
            .map_err(|error: tokenizers::Error| error.to_string())?;
        // A corpus is neither cut nor padded by the settings of whoever saved the tokenizer.
        inner
            .with_truncation(None)
            .map_err(|error| error.to_string())?
            .with_padding(None);
        let vocab = inner.get_vocab(true);
        let vocabulary_size = vocab.values().max().map_or(0, |&id| id as usize + 1);
        if vocabulary_size == 0 {
            return Err("the vocabulary is empty".to_owned());
        }
        if vocabulary_size as u64 > MAX_TOKENS {
            return Err(format!(
                "the vocabulary has {vocabulary_size} tokens; at most {MAX_TOKENS} are allowed"
            ));
        }
        let added = inner.get_added_tokens_decoder();
        let mut all: Vec<u32> = added
            .iter()
            .filter(|(_, token)| token.special)
            .map(|(&id, _)| id)
            .collect();
        all.sort_unstable();
        let named = |key: &str| beside.token(key).and_then(|token| inner.token_to_id(token));
        let usual = || END_NAMES.iter().find_map(|name| inner.token_to_id(name));
        let specials = SpecialTokens {
            bos: named("bos_token"),
            eos: named("eos_token").or_else(usual),
            pad: named("pad_token"),
            separator: None,
            all,
        };
        let fast = FastBpe::new(json, added.values().map(|token| token.content.clone()));
        let steps = Steps::of(&inner)?;
        let surrounded = steps
            .encode(&inner, "", true)
            .map_err(|error| error.to_string())?;
        if let Some(id) = surrounded
            .iter()
            .find(|&&id| id as usize >= vocabulary_size)
        {
            return Err(format!(
                "the post-processor puts the token {id} around a text: the vocabulary has {vocabulary_size}"
            ));
        }
        let file = Self {
            steps,
            fast,
            vocabulary_size,
            chat_template: beside.template(),
            inner,
        };
        Ok((file, specials))
    }

    /// Encodes a text; `specials` puts the post-processor's tokens around it.
    pub fn encode(&self, text: &str, specials: bool) -> Result<Vec<u32>> {
        let fast = self.fast.as_ref().filter(|_| !specials);
        if let Some(tokens) = fast.and_then(|fast| fast.encode(text)) {
            return Ok(tokens);
        }
        let encoded = guarded(|| self.steps.encode(&self.inner, text, specials));
        let encoded = encoded.unwrap_or_else(|panic| Err(broken(&panic).into()));
        encoded.map_err(|error| TextError::argument("encode", error))
    }

    pub fn decode(&self, tokens: &[u32], skip_specials: bool) -> Result<String> {
        let decoded = guarded(|| self.inner.decode(tokens, skip_specials));
        let decoded = decoded.unwrap_or_else(|panic| Err(broken(&panic).into()));
        decoded.map_err(|error| TextError::argument("decode", error))
    }

    pub fn vocabulary_size(&self) -> usize {
        self.vocabulary_size
    }

    pub fn token_to_id(&self, token: &str) -> Option<u32> {
        self.inner.token_to_id(token)
    }

    pub fn id_to_token(&self, id: u32) -> Option<String> {
        self.inner.id_to_token(id)
    }

    pub fn chat_template(&self) -> Option<&str> {
        self.chat_template.as_deref()
    }
}

/// What cannot be carried out, in words.
fn broken(panic: &str) -> String {
    format!("the tokenizer's file asks for what cannot be done ({panic})")
}

impl fmt::Debug for TokenizerFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a tokenizer of {} tokens", self.vocabulary_size)
    }
}
