//! The decoders of the `tokenizers` crate, carried out token by token: each remembers what it must know of the tokens
//! before, and holds back what those after may change.

use tokenizers::decoders::DecoderWrapper;
use tokenizers::pre_tokenizers::metaspace::PrependScheme;
use tokenizers::{Decoder as _, Error};

use super::utf8::Utf8;

/// A decoder that makes texts of texts.
#[derive(Clone, Debug)]
pub(super) enum TextDecoder<'a> {
    /// Decodes each text by itself.
    Each(&'a DecoderWrapper),
    /// As [`TextDecoder::Each`], but the first in another way.
    First(&'a DecoderWrapper, bool),
    /// As [`TextDecoder::Each`], but the last in another way: the text that may be the last is held back.
    Last(&'a DecoderWrapper, Option<String>),
    /// As [`TextDecoder::Each`], of texts that are another than the one before.
    Changes(&'a DecoderWrapper, Option<String>),
    /// Byte tokens become text where all of those that follow each other are UTF-8, else each is U+FFFD.
    ByteFallback(Run),
    /// Without a decoder: a blank in front of all but the first.
    Blanks(bool),
}

/// Byte tokens that follow each other.
#[derive(Clone, Debug, Default)]
pub(super) struct Run {
    bytes: Vec<u8>,
    /// The bytes at the beginning that are whole characters.
    n_whole: usize,
    /// Whether they can no longer be UTF-8.
    is_wrong: bool,
}

impl Run {
    /// Adds a byte, and returns the texts that are clear now.
    fn push(&mut self, byte: u8) -> Vec<String> {
        self.bytes.push(byte);
        if !self.is_wrong {
            match std::str::from_utf8(&self.bytes[self.n_whole..]) {
                Ok(_) => self.n_whole = self.bytes.len(),
                Err(error) => self.is_wrong = error.error_len().is_some(),
            }
        }
        match self.is_wrong {
            true => self.wrong(),
            false => Vec::new(),
        }
    }

    fn wrong(&mut self) -> Vec<String> {
        let n = std::mem::take(&mut self.bytes).len();
        vec![char::REPLACEMENT_CHARACTER.to_string(); n]
    }

    /// Ends the run: another token comes, or none.
    fn end(&mut self) -> Vec<String> {
        let mut run = std::mem::take(self);
        match String::from_utf8(std::mem::take(&mut run.bytes)) {
            Ok(text) if text.is_empty() => Vec::new(),
            Ok(text) => vec![text],
            Err(error) => {
                run.bytes = error.into_bytes();
                run.wrong()
            }
        }
    }
}

/// The byte of a token like `<0x0A>`.
pub(in super::super) fn byte_of(token: &str) -> Option<u8> {
    let digits = token.strip_prefix("<0x")?.strip_suffix('>')?;
    let is_byte = token.len() == 6;
    is_byte.then(|| u8::from_str_radix(digits, 16).ok())?
}

impl<'a> TextDecoder<'a> {
    /// The decoder of the crate as one that takes token by token; `None` for one that joins all texts.
    pub fn of(decoder: &'a DecoderWrapper) -> Option<Self> {
        Some(match decoder {
            DecoderWrapper::Replace(_) | DecoderWrapper::Strip(_) => Self::Each(decoder),
            DecoderWrapper::Metaspace(one) if one.prepend_scheme == PrependScheme::Never => {
                Self::Each(decoder)
            }
            DecoderWrapper::Metaspace(_) | DecoderWrapper::WordPiece(_) => {
                Self::First(decoder, true)
            }
            DecoderWrapper::BPE(_) => Self::Last(decoder, None),
            DecoderWrapper::CTC(_) => Self::Changes(decoder, None),
            DecoderWrapper::ByteFallback(_) => Self::ByteFallback(Run::default()),
            DecoderWrapper::ByteLevel(_)
            | DecoderWrapper::Fuse(_)
            | DecoderWrapper::Sequence(_) => return None,
        })
    }

    /// Takes the next text, and returns those that are clear now.
    fn take(&mut self, text: String) -> Result<Vec<String>, Error> {
        match self {
            Self::Each(decoder) => decoder.decode_chain(vec![text]),
            Self::First(decoder, is_first) => match std::mem::take(is_first) {
                true => decoder.decode_chain(vec![text]),
                false => {
                    let mut both = decoder.decode_chain(vec![String::new(), text])?;
                    Ok(both.split_off(1))
                }
            },
            Self::Last(decoder, held) => match held.replace(text) {
                None => Ok(Vec::new()),
                Some(text) => {
                    let mut both = decoder.decode_chain(vec![text, String::new()])?;
                    both.truncate(1);
                    Ok(both)
                }
            },
            Self::Changes(_, Some(before)) if *before == text => Ok(Vec::new()),
            Self::Changes(decoder, before) => {
                *before = Some(text.clone());
                decoder.decode_chain(vec![text])
            }
            Self::ByteFallback(run) => Ok(match byte_of(&text) {
                Some(byte) => run.push(byte),
                None => {
                    let mut texts = run.end();
                    texts.push(text);
                    texts
                }
            }),
            Self::Blanks(is_first) => Ok(match std::mem::take(is_first) {
                true => vec![text],
                false => vec![format!(" {text}")],
            }),
        }
    }

    /// The texts that are held back, at the end.
    fn end(&mut self) -> Result<Vec<String>, Error> {
        match self {
            Self::Last(decoder, held) => match held.take() {
                Some(text) => decoder.decode_chain(vec![text]),
                None => Ok(Vec::new()),
            },
            Self::ByteFallback(run) => Ok(run.end()),
            _ => Ok(Vec::new()),
        }
    }

    /// The bytes that are held back.
    #[cfg(test)]
    pub fn n_held(&self) -> usize {
        match self {
            Self::Last(_, held) | Self::Changes(_, held) => held.as_ref().map_or(0, String::len),
            Self::ByteFallback(run) => run.bytes.len(),
            _ => 0,
        }
    }
}

/// Sends a text through decoders, one after the other.
pub(super) fn feed(
    decoders: &mut [TextDecoder<'_>],
    text: String,
    join: &mut Join<'_>,
    out: &mut String,
) -> Result<(), Error> {
    let Some((first, rest)) = decoders.split_first_mut() else {
        join.take(&text, out);
        return Ok(());
    };
    let texts = first.take(text)?;
    texts
        .into_iter()
        .try_for_each(|text| feed(rest, text, join, out))
}

/// Ends decoders, one after the other.
pub(super) fn end(
    decoders: &mut [TextDecoder<'_>],
    join: &mut Join<'_>,
    out: &mut String,
) -> Result<(), Error> {
    let Some((first, rest)) = decoders.split_first_mut() else {
        return Ok(());
    };
    for text in first.end()? {
        feed(rest, text, join, out)?;
    }
    end(rest, join, out)
}

/// How the texts become one.
#[derive(Clone, Debug)]
pub(super) enum Join<'a> {
    /// One after another.
    Texts,
    /// By the bytes that their characters stand for, which this table has.
    Bytes(Utf8, &'a [Option<u8>]),
}

impl Join<'_> {
    fn take(&mut self, text: &str, out: &mut String) {
        let (utf8, table) = match self {
            Self::Texts => return out.push_str(text),
            Self::Bytes(utf8, table) => (utf8, table),
        };
        let byte = |char: char| table.get(char as usize).copied().flatten();
        match text.chars().map(byte).collect::<Option<Vec<u8>>>() {
            Some(bytes) => out.push_str(&utf8.push(&bytes)),
            None => out.push_str(&utf8.push(text.as_bytes())),
        }
    }

    /// What is left at the end.
    pub fn end(&mut self, out: &mut String) {
        if let Self::Bytes(utf8, _) = self {
            out.push_str(&utf8.finish());
        }
    }
}

/// Removes a character from the beginning of a text, at most a number of times.
#[derive(Clone, Debug)]
pub(super) struct Start {
    pub content: char,
    pub n_left: usize,
}

impl Start {
    /// Takes the next part of the text.
    pub fn take(&mut self, text: &str) -> String {
        let mut rest = text;
        while let Some(behind) = rest.strip_prefix(self.content)
            && self.n_left > 0
        {
            rest = behind;
            self.n_left -= 1;
        }
        if !rest.is_empty() {
            self.n_left = 0;
        }
        rest.to_owned()
    }
}
