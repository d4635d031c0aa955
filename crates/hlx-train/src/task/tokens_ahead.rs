//! Batches of token rows, made ahead of their steps by worker threads.

use std::sync::Arc;

use anyhow::{Result, bail};
use hlx_autograd::{DType, IGNORE_INDEX};
use hlx_text::{TokenBatch, TokenSamples, TokenShards};

use super::ahead::Ahead;
use crate::config::RowKind;
use crate::rows::{Batch, BatchSizes, Rows};

/// What becomes of a batch of tokens when it is laid out for a model.
#[derive(Clone)]
pub(super) struct RowLayout {
    pub shards: TokenShards,
    pub kind: RowKind,
    /// The model's.
    pub vocabulary: usize,
    /// Whether rows that may end in padding have their lengths.
    pub has_lengths: bool,
}

impl RowLayout {
    /// Whether a row of training may end in padding; windows are full.
    fn may_be_padded(&self) -> bool {
        matches!(self.kind, RowKind::Packed | RowKind::Padded)
    }

    /// A batch as rows, whose tokens the vocabulary must have.
    pub fn rows(&self, batch: TokenBatch) -> Result<Rows> {
        let vocabulary = self.vocabulary;
        let targets = batch.targets.iter().filter(|&&id| id != IGNORE_INDEX);
        let largest = batch.ids.iter().chain(targets).max().copied().unwrap_or(0);
        if largest as usize >= vocabulary {
            // The first one names its file and place.
            self.shards.check_below(vocabulary)?;
            bail!("the token {largest} is outside of the model's vocabulary of {vocabulary}");
        }
        let shape = vec![batch.rows, batch.time];
        let documents = match self.kind {
            RowKind::SeparateWindows | RowKind::Packed => Some(batch.document_starts),
            RowKind::Windows | RowKind::Padded => None,
        };
        Ok(Rows {
            shape: shape.clone(),
            dtype: DType::U32,
            inputs: batch.ids,
            documents,
            lengths: (self.has_lengths && self.may_be_padded()).then_some(batch.lengths),
            target_shape: shape,
            targets: batch.targets,
            n_empty: 0,
        })
    }
}

/// The batches of a run's training rows. A batch depends on its number alone, whatever the number of workers;
/// they continue with the batch after the last one that was taken. An error reaches the step that needs the
/// batch.
pub(super) struct TokensAhead {
    source: Arc<Source>,
    ahead: Ahead<Batch>,
}

/// What the workers share.
struct Source {
    drawn: Box<dyn TokenSamples>,
    layout: RowLayout,
}

impl TokensAhead {
    /// Batches of the rows that are drawn; without workers they are made when they are taken.
    pub fn new(drawn: Box<dyn TokenSamples>, layout: RowLayout, workers: usize) -> Self {
        Self {
            source: Arc::new(Source { drawn, layout }),
            ahead: Ahead::new(workers),
        }
    }

    /// Takes the batch of a number: the rows from `number * batch_size` on.
    ///
    /// # Errors
    /// Shards that are damaged, and a token that the model does not have.
    pub fn batch(&self, number: u64, sizes: BatchSizes) -> Result<Batch> {
        let source = Arc::clone(&self.source);
        let make = move |number| source.batch(number, sizes);
        self.ahead.take(number, sizes, make)
    }

    /// As [`TokensAhead::batch`], made on this thread.
    ///
    /// # Errors
    /// As [`TokensAhead::batch`].
    pub fn batch_apart(&self, number: u64, sizes: BatchSizes) -> Result<Batch> {
        self.source.batch(number, sizes)
    }
}

impl Source {
    fn batch(&self, number: u64, sizes: BatchSizes) -> Result<Batch> {
        let BatchSizes {
            batch_size,
            micro_batch_size,
            n_samples,
            ..
        } = sizes;
        let first = number * batch_size as u64;
        let mut batch = Batch {
            micro_batches: Vec::with_capacity(n_samples / micro_batch_size),
            n_targets: 0,
            n_inputs: 0,
        };
        for part in sizes.mine().step_by(micro_batch_size) {
            let rows = self.drawn.batch(first + part as u64, micro_batch_size)?;
            batch.n_targets += rows.n_targets;
            batch.n_inputs += rows.n_inputs;
            batch.micro_batches.push(self.layout.rows(rows)?);
        }
        Ok(batch)
    }
}

#[cfg(test)]
mod tests {
    use hlx_text::{Document, Windows};

    use super::super::ahead::AHEAD;
    use super::*;

    const SIZES: BatchSizes = BatchSizes {
        batch_size: 4,
        micro_batch_size: 2,
        first_sample: 0,
        n_samples: 4,
    };

    /// Windows of 6 over 2,000 tokens, of which the one at `wrong` is 99.
    fn ahead(workers: usize, wrong: Option<usize>) -> Result<TokensAhead> {
        let mut tokens: Vec<u32> = (0..2000).map(|at| at * 7 % 40).collect();
        if let Some(at) = wrong {
            tokens[at] = 99;
        }
        let shards = TokenShards::from_documents(100, &[Document::new(tokens)])?;
        let drawn = Windows::new(shards.clone(), 0..2000, 6, 3)?;
        let layout = RowLayout {
            shards,
            kind: RowKind::Windows,
            vocabulary: 40,
            has_lengths: true,
        };
        Ok(TokensAhead::new(Box::new(drawn), layout, workers))
    }

    /// In order, then back, on from there, ahead, and with other micro-batches.
    #[test]
    fn batches_are_the_same_whatever_the_number_of_workers() -> Result<()> {
        let whole = BatchSizes {
            micro_batch_size: 4,
            ..SIZES
        };
        let plain = ahead(0, None)?;
        for workers in [1, 3] {
            let ahead = ahead(workers, None)?;
            for (number, sizes) in [
                (0, SIZES),
                (1, SIZES),
                (2, SIZES),
                (1, SIZES),
                (2, SIZES),
                (9, SIZES),
                (10, whole),
            ] {
                let expected = plain.source.batch(number, sizes)?;
                assert_eq!(ahead.batch(number, sizes)?, expected, "{workers}: {number}");
            }
        }
        Ok(())
    }

    #[test]
    fn an_error_reaches_the_step_that_needs_the_batch() -> Result<()> {
        let plain = ahead(0, Some(1200))?;
        let fails = |number: &u64| plain.source.batch(*number, SIZES).is_err();
        let first = (0..1000).find(fails).expect("a window over the token");
        assert!(
            first > AHEAD as u64,
            "the workers meet it before the step does"
        );
        let ahead = ahead(2, Some(1200))?;
        for number in 0..first {
            ahead.batch(number, SIZES)?;
        }
        // Once more, and the batches after it: the error stays where it belongs.
        for _ in 0..2 {
            let error = ahead.batch(first, SIZES).expect_err("the token is outside");
            let expected = "documents in memory: the token 99 at 1200 is outside of the model's \
                            vocabulary of 40";
            assert_eq!(error.to_string(), expected);
        }
        for number in first + 1..first + 20 {
            let found = ahead.batch(number, SIZES).ok();
            assert_eq!(found, plain.source.batch(number, SIZES).ok(), "{number}");
        }
        Ok(())
    }
}
