//! The language model over rows of bytes.

use anyhow::Result;
use hlx_autograd::DType;
use hlx_nn::{Model, Module, Transformer, Weights};

use super::{Batch, BatchSizes, Rows, Sizes, Task};
use crate::config::Format;
use crate::data::{Dataset, Split, TokenRows, VOCABULARY};
use crate::evaluate::{Evaluation, evaluate};

/// A transformer that predicts the next byte of pairs or of a text.
pub struct LanguageTask {
    /// The model.
    pub model: Model<Transformer>,
    /// The corpus.
    pub data: Dataset,
}

impl LanguageTask {
    /// Whether the samples are pairs, whose inputs can be answered.
    pub fn is_of_pairs(&self) -> bool {
        self.data.format() == Format::Pairs
    }
}

impl Task for LanguageTask {
    fn weights(&self) -> &Weights {
        self.model.weights()
    }

    fn module(&self) -> &dyn Module {
        self.model.module()
    }

    fn sizes(&self) -> Sizes {
        Sizes::Transformer(self.model.config().clone())
    }

    fn digest(&self) -> &str {
        self.data.digest()
    }

    fn n_samples(&self) -> usize {
        self.data.len()
    }

    /// Pairs are drawn by the seed; of a text the end is held out.
    fn split(&self, fraction: f64, seed: u64) -> Split {
        self.data.split(fraction, seed)
    }

    /// Samples are put in the order of their lengths: micro-batches of samples of similar length have
    /// little padding.
    fn batch(&self, samples: &[usize], _epoch: u64, sizes: BatchSizes) -> Result<Batch> {
        let BatchSizes {
            batch_size,
            micro_batch_size,
        } = sizes;
        let mut rows = vec![None; batch_size.saturating_sub(samples.len())];
        rows.extend(samples.iter().copied().map(Some));
        // Stable: samples of one length stay in the epoch's order.
        rows.sort_by_key(|sample| sample.map_or(0, |index| self.data.sample(index).time()));
        let positions = self.model.config().positions;
        let micro_batches = rows
            .chunks(micro_batch_size)
            .map(|part| TokenRows::new(&self.data, part, positions).into())
            .collect();
        let chosen = || samples.iter().map(|&index| self.data.sample(index));
        Ok(Batch {
            micro_batches,
            n_targets: chosen().map(|sample| sample.n_targets()).sum(),
            n_inputs: chosen().map(|sample| sample.time()).sum(),
        })
    }

    fn evaluate(&self, samples: &[usize], batch_size: usize) -> Result<Evaluation> {
        evaluate(&self.model, &self.data, samples, batch_size)
    }

    fn n_classes(&self) -> usize {
        VOCABULARY
    }

    fn as_language(&self) -> Option<&LanguageTask> {
        Some(self)
    }
}

impl From<TokenRows> for Rows {
    fn from(rows: TokenRows) -> Self {
        let shape = vec![rows.batch, rows.time];
        Self {
            shape: shape.clone(),
            dtype: DType::U32,
            inputs: rows.ids,
            target_shape: shape,
            targets: rows.targets,
            n_empty: rows.n_empty,
        }
    }
}
