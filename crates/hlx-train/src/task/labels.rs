//! The labels of prepared rows: how many rows have any, and how many lose theirs where a record is cut.

use std::ops::Range;

use anyhow::Result;
use hlx_text::{TokenRange, TokenShards};

use crate::config::RowKind;

/// Tokens whose flags are read at a time.
const AT_A_TIME: u64 = 1 << 20;

/// The rows of a part by what they predict.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Labels {
    /// Whether a row predicts anything that is trained on.
    pub has_any: bool,
    /// For rows of one record each: the records.
    pub n_records: u64,
    /// Records that are cut, and lose a part of their labels.
    pub n_shortened: u64,
    /// Records that are cut, and lose all of their labels.
    pub n_lost: u64,
}

impl Labels {
    /// Counts those of a part of the tokens. Of rows that lose nothing the first label is enough.
    ///
    /// # Errors
    /// Shards that are damaged.
    pub(super) fn of(
        shards: &TokenShards,
        part: &TokenRange,
        kind: RowKind,
        length: usize,
    ) -> Result<Self> {
        match kind {
            RowKind::Padded => Self::of_records(shards, part.documents.clone(), length as u64),
            RowKind::Packed => {
                for number in part.documents.clone() {
                    let document = shards.document(number)?;
                    if any_trained(shards, document.start + 1..document.end)? {
                        return Ok(Self::some());
                    }
                }
                Ok(Self::default())
            }
            RowKind::Windows | RowKind::SeparateWindows => {
                let Range { start, end } = part.tokens;
                let has_any = any_trained(shards, (start + 1).min(end)..end)?;
                Ok(Self {
                    has_any,
                    ..Self::default()
                })
            }
        }
    }

    fn some() -> Self {
        Self {
            has_any: true,
            ..Self::default()
        }
    }

    fn of_records(shards: &TokenShards, documents: Range<u64>, length: u64) -> Result<Self> {
        let mut labels = Self {
            n_records: documents.end - documents.start,
            ..Self::default()
        };
        for number in documents {
            let Range { start, end } = shards.document(number)?;
            let cut = end.min(start.saturating_add(length).saturating_add(1));
            let is_trained = any_trained(shards, start + 1..cut)?;
            let is_cut = any_trained(shards, cut..end)?;
            labels.has_any |= is_trained;
            labels.n_shortened += u64::from(is_trained && is_cut);
            labels.n_lost += u64::from(!is_trained && is_cut);
        }
        Ok(labels)
    }

    /// What a cut takes away, in a line; `part` is what the records are.
    pub(super) fn warning(&self, part: &str, length: usize) -> Option<String> {
        let Self {
            n_records,
            n_shortened,
            n_lost,
            ..
        } = *self;
        let longer = format!("of the {n_records} records of {part}");
        let lost = format!("{n_lost} lose all of their labels, and count nothing");
        let shortened = format!("{n_shortened} lose a part of them");
        let what = match (n_lost, n_shortened) {
            (0, 0) => return None,
            (0, _) => format!("{n_shortened} lose a part of their labels"),
            (_, 0) => lost,
            _ => format!("{lost}; {shortened}"),
        };
        Some(format!(
            "rows are cut to {length} tokens (data.length): {longer}, {what}"
        ))
    }
}

/// Whether a range holds a token that is trained on.
fn any_trained(shards: &TokenShards, range: Range<u64>) -> Result<bool> {
    let mut start = range.start;
    if start < range.end && !shards.has_masks() {
        return Ok(true);
    }
    while start < range.end {
        let end = range.end.min(start + AT_A_TIME);
        if shards.trained(start..end)?.contains(&true) {
            return Ok(true);
        }
        start = end;
    }
    Ok(false)
}

#[cfg(test)]
mod tests {
    use hlx_text::Document;

    use super::*;

    /// A document that is trained on from a token on.
    fn document(n: u32, n_given: u32) -> Document {
        Document {
            tokens: (0..n).collect(),
            trained: Some((0..n).map(|at| at >= n_given).collect()),
        }
    }

    #[test]
    fn records_that_lose_their_labels_by_the_length_are_counted() -> Result<()> {
        let documents = [
            document(4, 2),
            document(20, 18),
            document(20, 3),
            document(5, 5),
            document(1, 0),
        ];
        let shards = TokenShards::from_documents(64, &documents)?;
        let part = shards.split(0.0)?.train;
        let labels = |kind, length| Labels::of(&shards, &part, kind, length);
        let padded = labels(RowKind::Padded, 8)?;
        let expected = Labels {
            has_any: true,
            n_records: 5,
            n_shortened: 1,
            n_lost: 1,
        };
        assert_eq!(padded, expected);
        let line = padded.warning("d", 8).expect("some are cut");
        assert!(line.ends_with("of the 5 records of d, 1 lose all of their labels, and count nothing; 1 lose a part of them"), "{line}");
        let whole = labels(RowKind::Padded, 19)?;
        assert!(whole.warning("d", 19).is_none() && whole.has_any);
        for kind in [RowKind::Packed, RowKind::Windows, RowKind::SeparateWindows] {
            assert_eq!(labels(kind, 8)?, Labels::some());
        }
        Ok(())
    }

    #[test]
    fn rows_without_a_label_have_none() -> Result<()> {
        let documents = [document(20, 18), document(6, 6), document(1, 0)];
        let shards = TokenShards::from_documents(64, &documents)?;
        let part = TokenRange {
            tokens: 0..18,
            documents: 1..3,
        };
        for kind in [RowKind::Padded, RowKind::Packed, RowKind::Windows] {
            assert!(!Labels::of(&shards, &part, kind, 8)?.has_any, "{kind:?}");
        }
        let first = TokenRange {
            tokens: 0..20,
            documents: 0..1,
        };
        let cut = Labels::of(&shards, &first, RowKind::Padded, 8)?;
        assert_eq!((cut.has_any, cut.n_lost), (false, 1));
        assert!(Labels::of(&shards, &first, RowKind::Windows, 8)?.has_any);
        Ok(())
    }
}
