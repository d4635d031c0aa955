//! Texts while they grow: where they end, and how much of each can be shown.

use std::collections::BTreeSet;

use anyhow::Result;
use hlx_text::DecodeStream;

use super::stop::Stops;
use super::tokens::{Drawn, Take};

/// What there is to tell of a text.
#[derive(Debug)]
pub enum News<'a> {
    /// Its next bytes.
    Bytes(&'a [u8]),
    /// It has ended, and is all of these bytes; or it cannot be made.
    End(Result<Vec<u8>>),
}

/// Gets what there is to tell of the text of a number.
pub type Tell<'a> = &'a mut dyn FnMut(usize, News<'_>) -> Result<()>;

/// How the tokens of a text become bytes.
pub(super) trait Decode {
    /// The bytes that are clear with a token.
    fn push(&mut self, token: u32) -> Result<Vec<u8>>;
    /// The bytes that are left at the end.
    fn finish(self) -> Result<Vec<u8>>;
}

impl Decode for DecodeStream<'_> {
    fn push(&mut self, token: u32) -> Result<Vec<u8>> {
        let piece = DecodeStream::push(self, token)?;
        Ok(piece.unwrap_or_default().into_bytes())
    }

    fn finish(self) -> Result<Vec<u8>> {
        Ok(DecodeStream::finish(self)?.into_bytes())
    }
}

/// Tokens that are bytes; a model may have more of them than there are bytes, which stand for nothing.
pub(super) struct RawBytes;

impl Decode for RawBytes {
    fn push(&mut self, token: u32) -> Result<Vec<u8>> {
        Ok(u8::try_from(token).into_iter().collect())
    }

    fn finish(self) -> Result<Vec<u8>> {
        Ok(Vec::new())
    }
}

/// Tells of the texts that `generate` draws the tokens of, each up to a stop: of every text its bytes, then its end.
///
/// # Errors
/// That of `tell`, which ends all texts, and that of `generate`; the texts that it was to continue with have not
/// ended then.
pub(super) fn grow_texts<D: Decode>(
    decoders: Vec<D>,
    stops: &Stops<'_>,
    tell: Tell<'_>,
    generate: impl FnOnce(Take<'_>) -> Result<()>,
) -> Result<()> {
    let texts = decoders.into_iter();
    let mut texts: Vec<_> = texts.map(|one| Some((one, Growing::default()))).collect();
    let mut is_told = true;
    let mut tell = |number: usize, news: News<'_>| {
        let told = tell(number, news);
        is_told &= told.is_ok();
        told
    };
    let made = generate(&mut |number, drawn| {
        let Some((decoder, text)) = &mut texts[number] else {
            return Ok(true);
        };
        let step = match drawn {
            Drawn::Token(token) => decoder.push(token),
            Drawn::Failed => Err(Drawn::failure()),
            Drawn::End => match texts[number].take() {
                Some((decoder, text)) => return end(decoder, text, stops, number, &mut tell),
                None => return Ok(true),
            },
        };
        match step {
            Ok(piece) => text.grow(&piece, stops, &mut |new| tell(number, News::Bytes(new))),
            Err(error) => {
                texts[number] = None;
                tell(number, News::End(Err(error)))?;
                Ok(true)
            }
        }
    });
    // The end of texts that failed by themselves is told already.
    match is_told && texts.iter().all(Option::is_none) {
        true => Ok(()),
        false => made,
    }
}

/// The texts that `write` writes after prompts: for each prompt its text, or why there is none. A prompt that is
/// none, and a text that fails, leave the others as they are.
pub fn each_text(
    prompts: Vec<Result<Vec<u32>>>,
    write: impl FnOnce(&[Vec<u32>], Tell<'_>) -> Result<()>,
) -> Vec<Result<String, String>> {
    let reason = |error: &anyhow::Error| format!("{error:#}");
    let (mut texts, mut good) = (Vec::new(), Vec::new());
    for (number, prompt) in prompts.into_iter().enumerate() {
        texts.push(Err(match prompt {
            Err(error) => reason(&error),
            Ok(ids) => {
                good.push((number, ids));
                String::new()
            }
        }));
    }
    let (numbers, good): (Vec<usize>, Vec<Vec<u32>>) = good.into_iter().unzip();
    let mut open: BTreeSet<usize> = numbers.iter().copied().collect();
    let written = match good.is_empty() {
        true => Ok(()),
        false => write(&good, &mut |number, news| {
            if let News::End(text) = news {
                let text = text.map(|text| String::from_utf8_lossy(&text).into_owned());
                texts[numbers[number]] = text.map_err(|error| reason(&error));
                open.remove(&numbers[number]);
            }
            Ok(())
        }),
    };
    if let Err(error) = written {
        for number in open {
            texts[number] = Err(reason(&error));
        }
    }
    texts
}

/// Tells of the end of a text.
fn end<D: Decode>(
    decoder: D,
    mut text: Growing,
    stops: &Stops<'_>,
    number: usize,
    tell: Tell<'_>,
) -> Result<bool> {
    let rest = match text.has_ended() {
        true => Ok(Vec::new()),
        false => decoder.finish(),
    };
    let whole = match rest {
        Ok(rest) => {
            let mut tell = |new: &[u8]| tell(number, News::Bytes(new));
            text.grow(&rest, stops, &mut tell)?;
            Ok(text.finish(&mut tell)?)
        }
        Err(error) => Err(error),
    };
    tell(number, News::End(whole))?;
    Ok(true)
}

/// A text that grows by pieces.
#[derive(Default)]
pub(crate) struct Growing {
    bytes: Vec<u8>,
    /// Bytes handed to the caller.
    n_told: usize,
    has_ended: bool,
    /// The stop that has ended it.
    stop: Vec<u8>,
}

impl Growing {
    /// Adds a piece up to the first stop, hands over what is clear now, and returns whether the text has
    /// ended.
    ///
    /// # Errors
    /// That of `tell`.
    pub fn grow(
        &mut self,
        piece: &[u8],
        stops: &Stops<'_>,
        tell: &mut dyn FnMut(&[u8]) -> Result<()>,
    ) -> Result<bool> {
        for &byte in piece {
            if self.has_ended {
                break;
            }
            self.bytes.push(byte);
            if let Some(stop) = stops.ended_by(&self.bytes) {
                self.stop = self.bytes.split_off(self.bytes.len() - stop);
                self.has_ended = true;
            }
        }
        let held = match self.has_ended {
            true => 0,
            false => stops.held(&self.bytes),
        };
        self.tell(held, tell)?;
        Ok(self.has_ended)
    }

    /// Whether a stop has ended it.
    pub fn has_ended(&self) -> bool {
        self.has_ended
    }

    /// The stop that has ended it, if one has.
    pub fn stop(&self) -> Option<&[u8]> {
        self.has_ended.then_some(&self.stop)
    }

    /// Hands over the rest, and returns the text.
    ///
    /// # Errors
    /// That of `tell`.
    pub fn finish(mut self, tell: &mut dyn FnMut(&[u8]) -> Result<()>) -> Result<Vec<u8>> {
        self.tell(0, tell)?;
        Ok(self.bytes)
    }

    /// Hands over what is new but the last `held` bytes.
    fn tell(&mut self, held: usize, tell: &mut dyn FnMut(&[u8]) -> Result<()>) -> Result<()> {
        let known = self.bytes.len() - held;
        if known > self.n_told {
            tell(&self.bytes[self.n_told..known])?;
            self.n_told = known;
        }
        Ok(())
    }
}
