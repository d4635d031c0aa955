//! One document a row, padded to the longest of the batch.

use std::ops::Range;

use super::rows::{Piece, Sample};
use super::{TokenBatch, TokenSamples, check_sizes, in_epoch};
use crate::{Result, TextError, TokenShards};

/// Documents, one per row: cut to what `time` positions take, padded to the longest of the batch. An epoch has
/// every document once, in an order drawn by seed and epoch.
///
/// ```
/// use hlx_text::{Document, PaddedDocuments, TokenSamples, TokenShards};
///
/// let documents = [Document::new(vec![1, 2, 3]), Document::new(vec![4, 5, 6, 7])];
/// let shards = TokenShards::from_documents(8, &documents)?;
/// let samples = PaddedDocuments::in_order(shards, 0..2, 16)?;
/// let batch = samples.batch(0, 2)?;
/// assert_eq!((batch.time, batch.ids), (3, vec![1, 2, 0, 4, 5, 6]));
/// assert_eq!(batch.lengths, [2, 3]);
/// # Ok::<(), hlx_text::TextError>(())
/// ```
#[derive(Clone, Debug)]
pub struct PaddedDocuments {
    shards: TokenShards,
    documents: Range<u64>,
    time: usize,
    multiple: usize,
    seed: Option<u64>,
}

impl PaddedDocuments {
    /// Takes the documents of a range in a new order each epoch.
    ///
    /// # Errors
    /// [`TextError::Argument`] for documents that are out of range, or none.
    pub fn new(shards: TokenShards, documents: Range<u64>, time: usize, seed: u64) -> Result<Self> {
        Self::of(shards, documents, time, Some(seed))
    }

    /// Takes the documents by number.
    ///
    /// # Errors
    /// As [`PaddedDocuments::new`].
    pub fn in_order(shards: TokenShards, documents: Range<u64>, time: usize) -> Result<Self> {
        Self::of(shards, documents, time, None)
    }

    /// Rounds the columns of a batch up to a multiple, within `time`, so that few shapes are recorded.
    #[must_use]
    pub fn with_time_multiple(mut self, multiple: usize) -> Self {
        self.multiple = multiple.max(1);
        self
    }

    fn of(
        shards: TokenShards,
        documents: Range<u64>,
        time: usize,
        seed: Option<u64>,
    ) -> Result<Self> {
        check_sizes("padded_documents", time)?;
        check_documents("padded_documents", &shards, &documents)?;
        Ok(Self {
            shards,
            documents,
            time,
            multiple: 1,
            seed,
        })
    }

    fn sample(&self, number: u64) -> Result<Sample> {
        let Range { start, end } = self.documents;
        let document = start + in_epoch(self.seed, number, end - start);
        let tokens = self.shards.document(document)?;
        let end = tokens.end.min(tokens.start + self.time as u64 + 1);
        Ok(vec![Piece::read(&self.shards, tokens.start..end)?])
    }
}

impl TokenSamples for PaddedDocuments {
    fn per_epoch(&self) -> Option<u64> {
        Some(self.documents.end - self.documents.start)
    }

    fn batch(&self, first: u64, rows: usize) -> Result<TokenBatch> {
        let samples = (0..rows as u64).map(|row| self.sample(first.wrapping_add(row)));
        let samples = samples.collect::<Result<Vec<_>>>()?;
        TokenBatch::new("padded_documents", &samples, 1, self.multiple, self.time)
    }
}

/// Checks a range of documents, which must hold one.
pub(super) fn check_documents(
    op: &'static str,
    shards: &TokenShards,
    documents: &Range<u64>,
) -> Result<()> {
    let n = shards.n_documents();
    let Range { start, end } = *documents;
    if start > end || end > n {
        let reason = format!("the documents {start} to {end} are out of range: there are {n}");
        return Err(TextError::argument(op, reason));
    }
    match end - start {
        0 => Err(TextError::argument(op, "there are no documents")),
        _ => Ok(()),
    }
}
