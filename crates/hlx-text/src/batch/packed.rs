//! Several documents per row, none of which sees another.

use std::ops::Range;

use super::padded::check_documents;
use super::rows::{Piece, Sample};
use super::{TokenBatch, TokenSamples, check_sizes, in_epoch};
use crate::{Result, TokenShards};

/// Documents packed into rows of `time` columns, in the order of the shards: a row takes documents
/// as long as they fit. What is longer than a row is cut into pieces of `time` predicted tokens,
/// which do not see each other either. Rows come in an order drawn by seed and epoch; the cut into rows is the
/// same in every epoch.
///
/// ```
/// use hlx_text::{Document, PackedDocuments, TokenSamples, TokenShards};
///
/// let documents = [vec![1, 2, 3], vec![4, 5, 6, 7], vec![8, 9]].map(Document::new);
/// let shards = TokenShards::from_documents(10, &documents)?;
/// let samples = PackedDocuments::in_order(shards, 0..3, 6)?;
/// let batch = samples.batch(0, 1)?;
/// assert_eq!(batch.ids, [1, 2, 4, 5, 6, 8]);
/// assert_eq!(batch.targets, [2, 3, 5, 6, 7, 9]);
/// assert_eq!(batch.document_starts, [0, 0, 2, 2, 2, 5]);
/// assert_eq!(batch.positions, [0, 1, 0, 1, 2, 0]);
/// # Ok::<(), hlx_text::TextError>(())
/// ```
#[derive(Clone, Debug)]
pub struct PackedDocuments {
    shards: TokenShards,
    time: usize,
    seed: Option<u64>,
    /// The first token of each row, and the end of the last one.
    rows: Vec<u64>,
}

impl PackedDocuments {
    /// Packs the documents of a range; rows have a new order each epoch. Reads the starts of all
    /// documents once, and holds eight bytes per row.
    ///
    /// # Errors
    /// [`TextError::Argument`](crate::TextError::Argument) for documents that are out of range, or none.
    pub fn new(shards: TokenShards, documents: Range<u64>, time: usize, seed: u64) -> Result<Self> {
        Self::of(shards, documents, time, Some(seed))
    }

    /// Packs the documents of a range; rows come in the documents' order.
    ///
    /// # Errors
    /// As [`PackedDocuments::new`].
    pub fn in_order(shards: TokenShards, documents: Range<u64>, time: usize) -> Result<Self> {
        Self::of(shards, documents, time, None)
    }

    fn of(
        shards: TokenShards,
        documents: Range<u64>,
        time: usize,
        seed: Option<u64>,
    ) -> Result<Self> {
        check_sizes("packed_documents", time)?;
        check_documents("packed_documents", &shards, &documents)?;
        let rows = cut_rows(&shards, documents, time as u64)?;
        Ok(Self {
            shards,
            time,
            seed,
            rows,
        })
    }

    fn sample(&self, number: u64) -> Result<Sample> {
        let n_rows = self.rows.len() as u64 - 1;
        let row = in_epoch(self.seed, number, n_rows) as usize;
        let (mut token, end) = (self.rows[row], self.rows[row + 1]);
        let mut sample = Vec::new();
        while token < end {
            let document = self.shards.document(self.shards.document_at(token)?)?;
            let (stop, next) = piece(&document, token, self.time as u64);
            sample.push(Piece::read(&self.shards, token..stop)?);
            token = next;
        }
        Ok(sample)
    }
}

impl TokenSamples for PackedDocuments {
    fn per_epoch(&self) -> Option<u64> {
        Some(self.rows.len() as u64 - 1)
    }

    fn batch(&self, first: u64, rows: usize) -> Result<TokenBatch> {
        let samples = (0..rows as u64).map(|row| self.sample(first.wrapping_add(row)));
        let samples = samples.collect::<Result<Vec<_>>>()?;
        TokenBatch::new("packed_documents", &samples, self.time, 1, self.time)
    }
}

/// Where the piece that begins at `token` ends, its last target included, and where the next begins:
/// a piece's last target is the next one's first input, unless the document ends.
fn piece(document: &Range<u64>, token: u64, time: u64) -> (u64, u64) {
    let stop = document.end.min(token + time + 1);
    match stop < document.end {
        true => (stop, stop - 1),
        false => (stop, stop),
    }
}

/// The first tokens of the rows, and the end of the last one.
fn cut_rows(shards: &TokenShards, documents: Range<u64>, time: u64) -> Result<Vec<u64>> {
    let mut rows = vec![shards.document(documents.start)?.start];
    let mut filled = 0;
    let mut end = 0;
    for number in documents {
        let document = shards.document(number)?;
        let mut token = document.start;
        while token < document.end {
            let (stop, next) = piece(&document, token, time);
            let taken = stop - token - 1;
            if filled + taken > time {
                rows.push(token);
                filled = 0;
            }
            filled += taken;
            token = next;
        }
        end = document.end;
    }
    rows.push(end);
    Ok(rows)
}
