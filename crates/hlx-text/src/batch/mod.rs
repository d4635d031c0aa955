//! Batches of tokens: windows, padded documents, packed documents.

mod order;
mod packed;
mod padded;
mod rows;
mod windows;

pub use packed::PackedDocuments;
pub use padded::PaddedDocuments;
pub use windows::Windows;

use crate::{Result, TextError};

/// The rows of one step, `[rows, time]` each unless stated, row by row.
///
/// Position t of a row sees the positions from `document_starts[t]` to t. Padding is on the right; a
/// position of it is a document of its own, without a target.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TokenBatch {
    /// Rows.
    pub rows: usize,
    /// Columns.
    pub time: usize,
    /// The tokens read.
    pub ids: Vec<u32>,
    /// The tokens predicted, or [`IGNORE_INDEX`](hlx_kernels::cross_entropy::IGNORE_INDEX).
    pub targets: Vec<u32>,
    /// `[rows]`: the columns of each row that are not padding.
    pub lengths: Vec<u32>,
    /// The column where the document of a position begins.
    pub document_starts: Vec<u32>,
    /// The place of a position in its document, from 0.
    pub positions: Vec<u32>,
    /// Targets that are not ignored.
    pub n_targets: usize,
    /// Tokens read: the sum of the lengths.
    pub n_inputs: usize,
}

/// Samples by number, one per row. A sample depends on the tokens, the options and its number alone, so
/// the number of the next one is all that a resumed run needs.
pub trait TokenSamples: Send + Sync {
    /// The samples of an epoch; `None` where samples are drawn without end.
    fn per_epoch(&self) -> Option<u64>;

    /// Makes a batch of the samples `first..first + rows`.
    ///
    /// # Errors
    /// [`TextError`]: no row, or shards that are damaged.
    fn batch(&self, first: u64, rows: usize) -> Result<TokenBatch>;
}

/// Sample `number` of permuted epochs of `n`: its epoch, and its place in the order of all.
fn in_epoch(seed: Option<u64>, number: u64, n: u64) -> u64 {
    let (epoch, place) = (number / n, number % n);
    match seed {
        Some(seed) => order::permuted(seed, epoch, place, n),
        None => place,
    }
}

/// Checks what all samples are made with.
fn check_sizes(op: &'static str, time: usize) -> Result<()> {
    match time {
        0 => Err(TextError::argument(op, "time is 0, expected at least 1")),
        _ if u32::try_from(time).is_err() => {
            let reason = format!("time is {time}, expected below 2^32");
            Err(TextError::argument(op, reason))
        }
        _ => Ok(()),
    }
}
