//! A text while it grows: where it ends, and how much of it can be shown.

use anyhow::Result;

use super::stop::Stops;

/// A text that grows by pieces.
#[derive(Default)]
pub(super) struct Growing {
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
