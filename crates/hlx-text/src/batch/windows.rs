//! Windows of a contiguous stream of tokens: at random offsets, or one after the other.

use std::ops::Range;

use super::rows::{Piece, Sample};
use super::{TokenBatch, TokenSamples, check_sizes, order};
use crate::{Result, TextError, TokenShards};

/// Windows of `time` predicted tokens, whatever documents they cross: each position sees the whole
/// window before it, as in nanoGPT.
///
/// ```
/// use hlx_text::{Document, TokenSamples, TokenShards, Windows};
///
/// let shards = TokenShards::from_documents(64, &[Document::new((0..64).collect())])?;
/// let windows = Windows::new(shards, 0..64, 8, 1)?;
/// let batch = windows.batch(0, 2)?;
/// assert_eq!(batch.targets[0], batch.ids[1]);
/// assert_eq!(batch, windows.batch(0, 2)?);
/// # Ok::<(), hlx_text::TextError>(())
/// ```
#[derive(Clone, Debug)]
pub struct Windows {
    shards: TokenShards,
    tokens: Range<u64>,
    time: usize,
    /// The seed of random offsets; without one, windows come in order.
    seed: Option<u64>,
    separate: bool,
}

impl Windows {
    /// Draws windows within `tokens`, without end: the offset of sample i is a function of seed and i.
    ///
    /// # Errors
    /// [`TextError::Argument`] for tokens that are out of range, or fewer than `time + 1`.
    pub fn new(shards: TokenShards, tokens: Range<u64>, time: usize, seed: u64) -> Result<Self> {
        let windows = Self::of(shards, tokens, time, Some(seed), time as u64 + 1)?;
        Ok(windows)
    }

    /// Takes windows one after the other, so that each of `tokens` but the first is predicted once
    /// an epoch, as an evaluation wants it. The last window may be shorter.
    ///
    /// # Errors
    /// [`TextError::Argument`] for tokens that are out of range, or fewer than two.
    pub fn in_order(shards: TokenShards, tokens: Range<u64>, time: usize) -> Result<Self> {
        Self::of(shards, tokens, time, None, 2)
    }

    /// The same windows, in which no position sees another document than its own. The last token of
    /// a document still has the next one's first token as its target.
    #[must_use]
    pub fn with_separate_documents(mut self) -> Self {
        self.separate = true;
        self
    }

    fn of(
        shards: TokenShards,
        tokens: Range<u64>,
        time: usize,
        seed: Option<u64>,
        least: u64,
    ) -> Result<Self> {
        check_sizes("windows", time)?;
        let n = shards.len();
        let Range { start, end } = tokens;
        if start > end || end > n {
            let reason = format!("the tokens {start} to {end} are out of range: there are {n}");
            return Err(TextError::argument("windows", reason));
        }
        let found = end - start;
        if found < least {
            let reason =
                format!("a window takes {least} tokens (one to start from), and there are {found}");
            return Err(TextError::argument("windows", reason));
        }
        Ok(Self {
            shards,
            tokens,
            time,
            seed,
            separate: false,
        })
    }

    /// The tokens of sample `number`: one more than it predicts.
    fn window(&self, number: u64) -> Range<u64> {
        let Range { start, end } = self.tokens;
        let time = self.time as u64;
        let first = match self.seed {
            Some(seed) => start + order::offset(seed, number, end - start - time),
            None => start + number % self.count() * time,
        };
        first..(first + time + 1).min(end)
    }

    /// Windows of an epoch in order.
    fn count(&self) -> u64 {
        (self.tokens.end - self.tokens.start - 1).div_ceil(self.time as u64)
    }

    fn sample(&self, number: u64) -> Result<Sample> {
        let Range { mut start, end } = self.window(number);
        if !self.separate {
            return Ok(vec![Piece::read(&self.shards, start..end)?]);
        }
        let mut pieces = Vec::new();
        while start + 1 < end {
            let document = self.shards.document(self.shards.document_at(start)?)?;
            // The piece reads up to the document's last token, and predicts the one after it.
            let stop = (document.end + 1).min(end);
            pieces.push(Piece::read(&self.shards, start..stop)?);
            start = stop - 1;
        }
        Ok(pieces)
    }
}

impl TokenSamples for Windows {
    fn per_epoch(&self) -> Option<u64> {
        self.seed.is_none().then(|| self.count())
    }

    fn batch(&self, first: u64, rows: usize) -> Result<TokenBatch> {
        let samples = (0..rows as u64).map(|row| self.sample(first.wrapping_add(row)));
        let samples = samples.collect::<Result<Vec<_>>>()?;
        TokenBatch::new("windows", &samples, self.time, 1, self.time)
    }
}
