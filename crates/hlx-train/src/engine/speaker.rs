//! A model that answers, and how its tokens are written.

use hlx_nn::CausalLm;
use hlx_text::{DecodeStream, Preparation, Result, Tokenizer};

use crate::opening::Opened;

/// A language model with its tokenizer.
#[derive(Debug)]
pub struct TextModel {
    /// The model.
    pub model: Opened,
    /// Its tokenizer.
    pub tokenizer: Tokenizer,
    /// How the texts were encoded that the model was trained on.
    pub preparation: Preparation,
    /// The tokens that end a text, as [`SpecialTokens::read`](crate::special_tokens::SpecialTokens::read) has them.
    pub end_tokens: Vec<u32>,
}

impl TextModel {
    /// What the engine needs of it.
    pub(crate) fn speaker(&self) -> Speaker<'_> {
        Speaker {
            model: &self.model,
            spelling: Spelling::Text(&self.tokenizer),
            end_tokens: &self.end_tokens,
        }
    }
}

/// A model, and what is known of its tokens.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Speaker<'m> {
    pub model: &'m CausalLm,
    pub spelling: Spelling<'m>,
    /// The tokens that end an answer.
    pub end_tokens: &'m [u32],
}

/// How tokens are written.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Spelling<'m> {
    /// As a tokenizer decodes them.
    Text(&'m Tokenizer),
    /// As bytes; a model may have more tokens than there are bytes, which stand for nothing.
    Bytes,
    /// Not at all.
    Ids,
}

impl<'m> Spelling<'m> {
    /// What decodes the tokens after a prompt, with the special tokens that are shown.
    pub(super) fn after(self, prompt: &[u32], shown: &[u32]) -> Result<Decoder<'m>> {
        Ok(match self {
            Self::Text(tokenizer) => {
                Decoder::Text(Box::new(tokenizer.stream_after(prompt)?.showing(shown)))
            }
            Self::Bytes => Decoder::Bytes,
            Self::Ids => Decoder::Ids,
        })
    }
}

/// What turns the tokens of an answer into its bytes.
pub(super) enum Decoder<'m> {
    Text(Box<DecodeStream<'m>>),
    Bytes,
    Ids,
}

impl Decoder<'_> {
    /// Whether tokens have a text.
    pub fn is_spelt(&self) -> bool {
        !matches!(self, Self::Ids)
    }

    /// The bytes that are clear with a token.
    pub fn push(&mut self, token: u32) -> Result<Vec<u8>> {
        Ok(match self {
            Self::Text(stream) => stream.push(token)?.unwrap_or_default().into_bytes(),
            Self::Bytes => u8::try_from(token).into_iter().collect(),
            Self::Ids => Vec::new(),
        })
    }

    /// The bytes that are left at the end.
    pub fn finish(self) -> Result<Vec<u8>> {
        Ok(match self {
            Self::Text(stream) => stream.finish()?.into_bytes(),
            Self::Bytes | Self::Ids => Vec::new(),
        })
    }
}
