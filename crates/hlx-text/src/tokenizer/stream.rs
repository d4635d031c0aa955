//! Decoding token by token.

mod decoders;
mod utf8;

use tokenizers::decoders::DecoderWrapper;

pub(super) use self::decoders::byte_of;
use self::decoders::{Join, Start, TextDecoder, end, feed};
use self::utf8::Utf8;
use super::byte_level::table;
use super::cleanup::CleanUp;
use super::file::TokenizerFile;
use super::{Kind, Tokenizer};
use crate::guard::guarded;
use crate::{Result, TextError};

/// Text that grows by tokens: a piece comes out once no later token can change it. All pieces together, with what
/// [`DecodeStream::finish`] returns, are the text that [`Tokenizer::decode`] makes of all tokens; after a
/// prompt ([`Tokenizer::stream_after`]) they are what follows the text of the prompt's tokens in it.
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
#[derive(Clone, Debug)]
pub struct DecodeStream<'a> {
    tokenizer: &'a Tokenizer,
    decoding: Decoding<'a>,
    clean_up: Option<CleanUp>,
    /// The text of the prompt that has not come out yet: it does not, so far as the whole has it.
    prompt: String,
    /// Special tokens that are part of the text.
    shown: Vec<u32>,
}

/// How tokens become text.
#[derive(Clone, Debug)]
enum Decoding<'a> {
    /// Each is a byte.
    Bytes(Utf8),
    /// Each is a character.
    Characters,
    /// By the decoders of a file.
    TextDecoders(TextDecoders<'a>),
    /// Not before the end: any token may change the whole text.
    AtEnd(Vec<u32>),
}

/// Decoders one after the other.
#[derive(Clone, Debug)]
struct TextDecoders<'a> {
    file: &'a TokenizerFile,
    decoders: Vec<TextDecoder<'a>>,
    join: Join<'a>,
    /// What is left out at the beginning of the joined text, by one decoder after the other.
    starts: Vec<Start>,
}

impl<'a> DecodeStream<'a> {
    pub(super) fn new(tokenizer: &'a Tokenizer) -> Self {
        let (decoding, cleans_up) = match &tokenizer.inner.kind {
            Kind::Bytes => (Decoding::Bytes(Utf8::default()), false),
            Kind::Characters(_) => (Decoding::Characters, false),
            Kind::File(file) => {
                let decoders = TextDecoders::of(file).map(Decoding::TextDecoders);
                let whole = || Decoding::AtEnd(Vec::new());
                (decoders.unwrap_or_else(whole), file.cleans_up())
            }
        };
        // What is decoded at the end is cleaned up already.
        let cleans_up = cleans_up && !matches!(decoding, Decoding::AtEnd(_));
        Self {
            tokenizer,
            decoding,
            clean_up: cleans_up.then(CleanUp::default),
            prompt: String::new(),
            shown: Vec::new(),
        }
    }

    /// The same, but these special tokens are part of the text. Where a tokenizer decodes only whole texts, they are not.
    #[must_use]
    pub fn showing(mut self, specials: &[u32]) -> Self {
        self.shown = specials.to_vec();
        self
    }

    pub(super) fn after(tokenizer: &'a Tokenizer, prompt: &[u32]) -> Result<Self> {
        let whole = tokenizer.decode(prompt)?;
        let mut stream = Self::new(tokenizer);
        let mut n_out = 0;
        for &token in prompt {
            n_out += stream.push(token)?.map_or(0, |text| text.len());
        }
        stream.prompt = whole.get(n_out..).unwrap_or_default().to_owned();
        Ok(stream)
    }

    /// Adds a token and returns the text that is clear now and was not before. A token that the vocabulary does not
    /// have adds nothing.
    ///
    /// # Errors
    /// As [`Tokenizer::decode`].
    pub fn push(&mut self, token: u32) -> Result<Option<String>> {
        let inner = &self.tokenizer.inner;
        let raw = match &mut self.decoding {
            _ if inner.skips(token) => return Ok(None),
            Decoding::Bytes(utf8) => {
                u8::try_from(token).map_or(String::new(), |byte| utf8.push(&[byte]))
            }
            Decoding::Characters => self.tokenizer.id_to_token(token).unwrap_or_default(),
            Decoding::TextDecoders(decoders) => {
                decoders.push(token, self.shown.contains(&token))?
            }
            Decoding::AtEnd(tokens) => {
                tokens.push(token);
                return Ok(None);
            }
        };
        let clear = match &mut self.clean_up {
            Some(clean_up) => clean_up.push(&raw),
            None => raw,
        };
        let new = self.behind_prompt(clear);
        Ok((!new.is_empty()).then_some(new))
    }

    /// Returns what is left at the end, characters that are not whole as U+FFFD.
    ///
    /// # Errors
    /// As [`Tokenizer::decode`].
    pub fn finish(mut self) -> Result<String> {
        let raw = match &mut self.decoding {
            Decoding::Bytes(utf8) => utf8.finish(),
            Decoding::Characters => String::new(),
            Decoding::TextDecoders(decoders) => decoders.finish()?,
            Decoding::AtEnd(tokens) => self.tokenizer.decode(tokens)?,
        };
        let clear = match &mut self.clean_up {
            Some(clean_up) => clean_up.push(&raw) + &clean_up.finish(),
            None => raw,
        };
        Ok(self.behind_prompt(clear))
    }

    /// Leaves out what the text has in common with the rest of the prompt's.
    fn behind_prompt(&mut self, text: String) -> String {
        if self.prompt.is_empty() {
            return text;
        }
        let both = text.char_indices().zip(self.prompt.chars());
        let alike = both.take_while(|((_, a), b)| a == b);
        let n = alike.map(|((at, char), _)| at + char.len_utf8()).last();
        let n = n.unwrap_or(0);
        match n < text.len() {
            true => self.prompt.clear(),
            false => _ = self.prompt.drain(..n),
        }
        text[n..].to_owned()
    }
}

impl<'a> TextDecoders<'a> {
    /// The decoders of a file; `None` where they do not go token by token.
    fn of(file: &'a TokenizerFile) -> Option<Self> {
        let mut all = Vec::new();
        match file.decoder() {
            Some(decoder) => flatten(decoder, &mut all),
            None => {
                return Some(Self {
                    file,
                    decoders: vec![TextDecoder::Blanks(true)],
                    join: Join::Texts,
                    starts: Vec::new(),
                });
            }
        }
        let n_decoders = all
            .iter()
            .take_while(|one| TextDecoder::of(one).is_some())
            .count();
        let decoders = all[..n_decoders]
            .iter()
            .filter_map(|one| TextDecoder::of(one));
        let join = match all.get(n_decoders) {
            Some(DecoderWrapper::ByteLevel(_)) => Join::Bytes(Utf8::default(), table()),
            _ => Join::Texts,
        };
        let rest = all.iter().skip(n_decoders + 1);
        // Joined, there is one text, and joining it again changes nothing.
        let rest = rest.filter(|one| !matches!(one, DecoderWrapper::Fuse(_)));
        let starts = rest.map(|one| match one {
            DecoderWrapper::Strip(strip) if strip.stop == 0 => Some(Start {
                content: strip.content,
                n_left: strip.start,
            }),
            _ => None,
        });
        Some(Self {
            file,
            decoders: decoders.collect(),
            join,
            starts: starts.collect::<Option<Vec<_>>>()?,
        })
    }

    /// Adds a token; a special one has no text unless it is shown.
    fn push(&mut self, token: u32, is_shown: bool) -> Result<String> {
        let text = match is_shown {
            true => self.file.id_to_token(token),
            false => self.file.shown_token(token),
        };
        let Some(text) = text else {
            return Ok(String::new());
        };
        self.joined(|decoders, join, out| feed(decoders, text, join, out))
    }

    fn finish(&mut self) -> Result<String> {
        self.joined(|decoders, join, out| {
            end(decoders, join, out)?;
            join.end(out);
            Ok(())
        })
    }

    /// The text that `work` makes, without what is left out at the beginning.
    fn joined(
        &mut self,
        work: impl FnOnce(
            &mut [TextDecoder<'a>],
            &mut Join<'a>,
            &mut String,
        ) -> std::result::Result<(), tokenizers::Error>,
    ) -> Result<String> {
        let mut out = String::new();
        let done = guarded(|| work(&mut self.decoders, &mut self.join, &mut out));
        done.unwrap_or_else(|panic| Err(panic.into()))
            .map_err(|error| TextError::argument("decode", error))?;
        let starts = self.starts.iter_mut();
        Ok(starts.fold(out, |text, start| start.take(&text)))
    }
}

/// The decoders that a decoder is made of.
pub(super) fn flatten<'a>(decoder: &'a DecoderWrapper, all: &mut Vec<&'a DecoderWrapper>) {
    match decoder {
        DecoderWrapper::Sequence(sequence) => {
            let inner = sequence.get_decoders().iter();
            inner.for_each(|one| flatten(one, all));
        }
        one => all.push(one),
    }
}

#[cfg(test)]
mod tests;
