//! A language model of files, with what its kind knows of texts.

use std::sync::Arc;

use anyhow::{Context as _, Result, bail};
use hlx_text::{Preparation, TOKENIZER_FILE, Tokenizer};

use crate::config::Format;
use crate::generate::{
    Generation, Tell, TextModel, TokenGeneration, prompt_of_bytes, tell_bytes, tell_texts,
};
use crate::opening::Opened;
use crate::sample::Sampling;

/// A language model that continues texts.
#[derive(Debug)]
pub enum TextSource {
    /// A run over the bytes of a format.
    Bytes(Box<Opened>, Format),
    /// A model with a tokenizer.
    Tokens(Arc<TextModel>),
    /// A model without a tokenizer, which continues ids alone.
    Ids(Box<Opened>),
}

/// How texts are written after prompts.
#[derive(Clone, Debug)]
pub struct TextOptions {
    /// Tokens at most.
    pub max_tokens: usize,
    /// How each is drawn.
    pub sampling: Sampling,
    /// Texts for each prompt.
    pub n_texts: usize,
    /// Texts that end a text; they are not part of it.
    pub stop: Vec<String>,
    /// For a model of pairs: whether prompts are left without their separator.
    pub raw: bool,
}

impl TextSource {
    /// The model.
    pub fn model(&self) -> &Opened {
        match self {
            Self::Bytes(model, _) | Self::Ids(model) => model,
            Self::Tokens(text) => &text.model,
        }
    }

    /// The same with another model, such as one with adapters or on another device.
    #[must_use]
    pub fn with_model(&self, model: Opened) -> Self {
        match self {
            Self::Bytes(_, format) => Self::Bytes(Box::new(model), *format),
            Self::Ids(_) => Self::Ids(Box::new(model)),
            Self::Tokens(text) => Self::Tokens(Arc::new(TextModel {
                model,
                tokenizer: text.tokenizer.clone(),
                preparation: text.preparation.clone(),
                end_tokens: text.end_tokens.clone(),
            })),
        }
    }

    /// The same with a tokenizer in the place of the one that it has.
    ///
    /// # Errors
    /// A run over bytes, whose tokens are bytes.
    pub fn with_tokenizer(&self, model: Opened, tokenizer: Tokenizer) -> Result<Self> {
        if matches!(self, Self::Bytes(..)) {
            bail!("the model's tokens are bytes, and no other tokenizer's");
        }
        Ok(Self::Tokens(Arc::new(TextModel {
            model,
            preparation: Preparation::of(&tokenizer),
            end_tokens: tokenizer.specials().eos.into_iter().collect(),
            tokenizer,
        })))
    }

    /// Its tokenizer; of a model of bytes that of bytes.
    pub fn tokenizer(&self) -> Option<Tokenizer> {
        match self {
            Self::Bytes(..) => Some(Tokenizer::bytes()),
            Self::Tokens(text) => Some(text.tokenizer.clone()),
            Self::Ids(_) => None,
        }
    }

    /// The model with its tokenizer.
    ///
    /// # Errors
    /// A model without a tokenizer of its own.
    pub fn text_model(&self) -> Result<&Arc<TextModel>> {
        match self {
            Self::Tokens(text) => Ok(text),
            _ => bail!("the model has no tokenizer beside it, expected one with a chat template"),
        }
    }

    /// The tokens of a prompt.
    ///
    /// # Errors
    /// What the model cannot continue, and a model without a tokenizer.
    pub fn encode(&self, prompt: &str, raw: bool) -> Result<Vec<u32>> {
        match self {
            Self::Bytes(model, format) => prompt_of_bytes(model, prompt.as_bytes(), *format, raw),
            Self::Tokens(text) => text.encode_prompt(prompt, raw),
            Self::Ids(_) => {
                bail!("the model has no {TOKENIZER_FILE} beside it, and continues token ids alone")
            }
        }
    }

    /// The tokens that end a text.
    pub fn end_tokens(&self) -> &[u32] {
        match self {
            Self::Tokens(text) => &text.end_tokens,
            Self::Bytes(..) | Self::Ids(_) => &[],
        }
    }

    /// Continues prompts that [`TextSource::encode`] made, and tells of the texts after them.
    ///
    /// # Errors
    /// As [`tell_texts`], and a model without a tokenizer.
    pub fn write(&self, prompts: &[Vec<u32>], options: &TextOptions, tell: Tell<'_>) -> Result<()> {
        let n_texts = options.n_texts;
        match self {
            Self::Bytes(model, format) => {
                let stop = options.stop.iter().map(|stop| stop.clone().into_bytes());
                let generation = Generation {
                    n_texts,
                    stop: stop.collect(),
                    raw: options.raw,
                    ..Generation::new(*format, options.max_tokens, options.sampling)
                };
                tell_bytes(model, prompts, &generation, tell)
            }
            Self::Tokens(text) => {
                let generation = TokenGeneration {
                    n_texts,
                    ..TokenGeneration::new(
                        options.max_tokens,
                        options.sampling,
                        text.end_tokens.clone(),
                    )
                };
                let (model, tokenizer) = (&*text.model, &text.tokenizer);
                tell_texts(model, tokenizer, prompts, &generation, &options.stop, tell)
            }
            Self::Ids(_) => self.encode("", true).map(drop).context("no text"),
        }
    }
}
