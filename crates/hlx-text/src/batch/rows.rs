//! Laying pieces of text out as rows.

use std::ops::Range;

use hlx_kernels::cross_entropy::IGNORE_INDEX;

use super::TokenBatch;
use crate::{Result, TextError, TokenShards};

/// The inputs of one sample: pieces that do not see each other, one after another.
pub(super) type Sample = Vec<Piece>;

/// Tokens of which each but the last is read and each but the first predicted.
pub(super) struct Piece {
    tokens: Vec<u32>,
    trained: Vec<bool>,
}

impl Piece {
    /// Reads a range of tokens.
    pub fn read(shards: &TokenShards, range: Range<u64>) -> Result<Self> {
        Ok(Self {
            trained: shards.trained(range.clone())?,
            tokens: shards.read(range)?,
        })
    }

    /// Positions of a row that the piece takes.
    pub fn time(&self) -> usize {
        self.tokens.len().saturating_sub(1)
    }
}

impl TokenBatch {
    /// Lays samples out, padded to the longest, which is rounded up to a multiple of `multiple`
    /// and never above `limit`; at least `least`.
    pub(super) fn new(
        op: &'static str,
        samples: &[Sample],
        least: usize,
        multiple: usize,
        limit: usize,
    ) -> Result<Self> {
        if samples.is_empty() {
            return Err(TextError::argument(op, "a batch of no row"));
        }
        let length = |sample: &Sample| sample.iter().map(Piece::time).sum::<usize>();
        let longest = samples.iter().map(length).max().unwrap_or(0);
        let time = longest.max(least).next_multiple_of(multiple.max(1));
        let time = time.min(limit.max(longest));
        let n = samples.len() * time;
        let mut batch = Self {
            rows: samples.len(),
            time,
            ids: Vec::with_capacity(n),
            targets: Vec::with_capacity(n),
            lengths: samples.iter().map(|sample| length(sample) as u32).collect(),
            document_starts: Vec::with_capacity(n),
            positions: Vec::with_capacity(n),
            n_targets: 0,
            n_inputs: samples.iter().map(length).sum(),
        };
        for sample in samples {
            batch.add(sample);
        }
        let targets = batch.targets.iter();
        batch.n_targets = targets.filter(|&&target| target != IGNORE_INDEX).count();
        Ok(batch)
    }

    fn add(&mut self, sample: &Sample) {
        let row = self.ids.len();
        for piece in sample {
            let n = piece.time();
            let start = (self.ids.len() - row) as u32;
            self.ids.extend_from_slice(&piece.tokens[..n]);
            let next = piece.tokens.iter().zip(&piece.trained).skip(1);
            self.targets
                .extend(next.map(|(&id, &trained)| if trained { id } else { IGNORE_INDEX }));
            self.document_starts.extend(std::iter::repeat_n(start, n));
            self.positions.extend(0..n as u32);
        }
        let filled = self.ids.len() - row;
        let end = row + self.time;
        self.ids.resize(end, 0);
        self.targets.resize(end, IGNORE_INDEX);
        self.document_starts.extend(filled as u32..self.time as u32);
        self.positions.resize(end, 0);
    }
}
