//! Texts while they grow: where they end, and how much of each can be shown.

use std::collections::BTreeSet;

use anyhow::Result;

use super::stop::Stops;

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
