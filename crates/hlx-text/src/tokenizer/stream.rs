//! Decoding token by token.

use super::Tokenizer;
use crate::Result;

/// Text that grows by tokens: a piece comes out once its characters are whole.
///
/// ```
/// use hlx_text::Tokenizer;
///
/// let tokenizer = Tokenizer::bytes();
/// let mut stream = tokenizer.stream();
/// assert_eq!(stream.push(0xc3)?, None);
/// assert_eq!(stream.push(0xa9)?.as_deref(), Some("é"));
/// # Ok::<(), hlx_text::TextError>(())
/// ```
#[derive(Debug)]
pub struct DecodeStream<'a> {
    tokenizer: &'a Tokenizer,
    /// The tokens of the last piece of text that came out, and those behind it: a decoder may treat the
    /// first token of a text in another way.
    tokens: Vec<u32>,
    /// How many of them have come out.
    shown: usize,
}

impl<'a> DecodeStream<'a> {
    pub(super) fn new(tokenizer: &'a Tokenizer) -> Self {
        Self {
            tokenizer,
            tokens: Vec::new(),
            shown: 0,
        }
    }

    /// Adds a token and returns the text that is whole now and was not before.
    ///
    /// # Errors
    /// As [`Tokenizer::decode`].
    pub fn push(&mut self, token: u32) -> Result<Option<String>> {
        self.tokens.push(token);
        let before = self.tokenizer.decode(&self.tokens[..self.shown])?;
        let text = self.tokenizer.decode(&self.tokens)?;
        // A character that is not whole is decoded as this one.
        if text.ends_with(char::REPLACEMENT_CHARACTER) {
            return Ok(None);
        }
        let new = text.get(before.len()..).unwrap_or_default().to_owned();
        if new.is_empty() {
            return Ok(None);
        }
        self.tokens.drain(..self.shown);
        self.shown = self.tokens.len();
        Ok(Some(new))
    }

    /// Returns what is left at the end, characters that are not whole as U+FFFD.
    ///
    /// # Errors
    /// As [`Tokenizer::decode`].
    pub fn finish(self) -> Result<String> {
        let before = self.tokenizer.decode(&self.tokens[..self.shown])?;
        let text = self.tokenizer.decode(&self.tokens)?;
        Ok(text.get(before.len()..).unwrap_or_default().to_owned())
    }
}
