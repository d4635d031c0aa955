//! Any `tokenizer.json`, by the `tokenizers` crate, and what lies beside it in a model's folder.

use std::fmt;

use hlx_core::warn_once;
use serde_json::Value;
use tokenizers::Tokenizer;
use tokenizers::decoders::DecoderWrapper;

use super::SpecialTokens;
use super::beside::TokenizerFiles;
use super::check::{MAX_TOKENS, check};
use super::cleanup::clean_up;
use super::encode::PreTokenizers;
use super::fast::FastBpe;
use super::specials::{add_stated, contradictions, is_bpe, line, specials_of};
use super::stated::{SPECIAL_TOKENS_MAP_FILE, Stated, TOKENIZER_CONFIG_FILE};
use super::surround::Surroundings;
use super::templates::ChatTemplates;
use crate::guard::guarded;
use crate::{Result, TextError};

/// A tokenizer of a file.
pub(super) struct TokenizerFile {
    inner: Tokenizer,
    pre_tokenizers: PreTokenizers,
    fast: Option<FastBpe>,
    surroundings: Surroundings,
    vocabulary_size: usize,
    cleans_up: bool,
    templates: ChatTemplates,
    files: TokenizerFiles,
}

/// What the files beside it say of a tokenizer.
#[derive(Default)]
pub(super) struct Beside {
    /// The files.
    files: TokenizerFiles,
    /// What `tokenizer_config.json` and `special_tokens_map.json` state.
    stated: Stated,
    /// The chat templates.
    templates: ChatTemplates,
}

impl Beside {
    /// Reads what files hold.
    pub fn of(files: TokenizerFiles) -> Result<Self> {
        let config = files.json(TOKENIZER_CONFIG_FILE)?;
        let map = files.json(SPECIAL_TOKENS_MAP_FILE)?;
        let stated = Stated::read(files.folder(), &config, &map)?;
        Ok(Self {
            templates: ChatTemplates::of(&files, &config, stated.texts())?,
            stated,
            files,
        })
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
        let mut notes = add_stated(&mut inner, &beside.stated)?;
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
        let fast = FastBpe::new(json, added.values().map(|token| token.content.clone()));
        let pre_tokenizers = PreTokenizers::of(&inner)?;
        let surrounded = pre_tokenizers
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
        let specials = specials_of(&inner, &beside.stated);
        notes.extend(contradictions(
            &inner,
            &beside.stated,
            &specials,
            &surrounded,
        ));
        for note in notes {
            warn_once(&line(&beside.files.folder().to_string_lossy(), &note));
        }
        let file = Self {
            surroundings: Surroundings::of(&inner).map_err(|error| error.to_string())?,
            pre_tokenizers,
            fast,
            vocabulary_size,
            cleans_up: beside.stated.cleans_up && !is_bpe(&inner),
            templates: beside.templates.clone(),
            files: beside.files.clone(),
            inner,
        };
        Ok((file, specials))
    }

    /// Encodes a text; `specials` puts the post-processor's tokens around it.
    pub fn encode(&self, text: &str, specials: bool) -> Result<Vec<u32>> {
        let around = &self.surroundings;
        let fast = self.fast.as_ref().filter(|_| !specials || around.is_once);
        match fast.and_then(|fast| fast.encode(text)) {
            Some(tokens) if specials => {
                return Ok([&around.before[..], &tokens, &around.behind].concat());
            }
            Some(tokens) => return Ok(tokens),
            None => {}
        }
        let encoded = guarded(|| self.pre_tokenizers.encode(&self.inner, text, specials));
        let encoded = encoded.unwrap_or_else(|panic| Err(broken(&panic).into()));
        encoded.map_err(|error| TextError::argument("encode", error))
    }

    pub fn decode(&self, tokens: &[u32], skip_specials: bool) -> Result<String> {
        let is_shown = |&&id: &&u32| match skip_specials {
            true => self.shown_token(id).is_some(),
            false => self.inner.id_to_token(id).is_some(),
        };
        let tokens: Vec<u32> = tokens.iter().filter(is_shown).copied().collect();
        // Some decoders of the crate expect a token.
        if tokens.is_empty() {
            return Ok(String::new());
        }
        let decoded = guarded(|| self.inner.decode(&tokens, skip_specials));
        let decoded = decoded.unwrap_or_else(|panic| Err(broken(&panic).into()));
        let text = decoded.map_err(|error| TextError::argument("decode", error))?;
        Ok(match self.cleans_up {
            true => clean_up(&text),
            false => text,
        })
    }

    /// The decoder, if there is one.
    pub fn decoder(&self) -> Option<&DecoderWrapper> {
        self.inner.get_decoder()
    }

    /// The text of a token that is not special, as the vocabulary has it.
    pub fn shown_token(&self, id: u32) -> Option<String> {
        let added = self.inner.get_added_vocabulary();
        let token = self.inner.id_to_token(id);
        token.filter(|token| !added.is_special_token(token))
    }

    /// Whether decoded texts are cleaned up as `clean_up_tokenization_spaces` says.
    pub fn cleans_up(&self) -> bool {
        self.cleans_up
    }

    /// The tokens that the post-processor puts in front of a text, and after it.
    pub fn surroundings(&self) -> &Surroundings {
        &self.surroundings
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

    pub fn chat_templates(&self) -> &ChatTemplates {
        &self.templates
    }

    pub fn files(&self) -> &TokenizerFiles {
        &self.files
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
