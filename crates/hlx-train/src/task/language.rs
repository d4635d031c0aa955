//! The language model over rows of bytes.

use anyhow::Result;
use hlx_nn::{CausalLm, CausalModel, Model, Parameter};

use super::{SampleText, Samples};
use crate::config::SampleSection;
use crate::data::{Batches, Dataset, RandomWindows, Sample, Split, TokenRows};
use crate::evaluate::{Evaluation, SampleLoss, mean_over_bytes, sample_losses};
use crate::generate::{Generation, each_text, prompt_of_bytes, tell_bytes};
use crate::rows::{Batch, BatchSizes, Rows};

/// A language model that predicts the next byte of pairs or of a text.
pub struct LanguageTask {
    /// The model.
    pub model: Model<CausalLm>,
    /// The corpus.
    pub data: Dataset,
    /// Where training reads a text; its fixed windows if left out.
    pub windows: Option<RandomWindows>,
    /// Whether the balance loss of experts is trained on.
    pub is_balanced: bool,
}

impl LanguageTask {
    /// Whether the samples are pairs, whose inputs can be answered.
    pub fn is_of_pairs(&self) -> bool {
        self.data.format().is_of_pairs()
    }

    /// The sample of a number in the corpus, or of random windows in the epoch.
    fn sample(&self, index: usize, epoch: u64) -> Result<Sample<'_>> {
        match &self.windows {
            Some(windows) => windows.sample(&self.data, epoch, index),
            None => self.data.sample(index),
        }
    }

    /// What the model writes for the prompts of a section: for each a text, or why there is none.
    pub(super) fn texts(&self, section: &SampleSection, seed: u64) -> Vec<SampleText> {
        let sampling = section.sampling(seed);
        let format = self.data.format();
        let generation = Generation::new(format, section.max_tokens(), sampling);
        let prompts = section.prompts.iter();
        let prompts =
            prompts.map(|prompt| prompt_of_bytes(&self.model, prompt.as_bytes(), format, false));
        each_text(prompts.collect(), |prompts, tell| {
            tell_bytes(&self.model, prompts, &generation, tell)
        })
    }
}

impl Samples for LanguageTask {
    fn digest(&self) -> &str {
        self.data.digest()
    }

    fn n_samples(&self) -> usize {
        self.data.len()
    }

    /// Pairs are drawn by the seed; the end of a text is held out.
    fn split(&self, fraction: f64, seed: u64) -> Split {
        self.data.split(fraction, seed)
    }

    fn batches(&self, train: &[usize], batch_size: usize, seed: u64) -> Batches {
        match self.windows {
            Some(_) => Batches::drawn(train.len(), batch_size),
            None => Batches::new(train.to_vec(), batch_size, seed),
        }
    }

    /// Samples are put in the order of their lengths: micro-batches of samples of similar length have
    /// little padding.
    fn batch(&self, samples: &[usize], epoch: u64, sizes: BatchSizes) -> Result<Batch> {
        let mut rows = vec![None; sizes.batch_size.saturating_sub(samples.len())];
        for &index in samples {
            rows.push(Some(self.sample(index, epoch)?));
        }
        // Stable: samples of one length stay in the epoch's order.
        rows.sort_by_key(|sample| sample.as_ref().map_or(0, Sample::time));
        let positions = self.model.max_positions();
        let rows = &rows[sizes.mine()];
        let micro_batches = rows
            .chunks(sizes.micro_batch_size)
            .map(|part| {
                let rows = TokenRows::of(part, positions);
                let lengths = self.is_balanced.then(|| rows.lengths.clone());
                Rows {
                    lengths,
                    ..rows.into()
                }
            })
            .collect();
        let chosen = || rows.iter().flatten();
        Ok(Batch {
            micro_batches,
            n_targets: chosen().map(Sample::n_targets).sum(),
            n_inputs: chosen().map(Sample::time).sum(),
        })
    }

    fn sample_losses(&self, samples: &[usize], batch_size: usize) -> Result<Vec<SampleLoss>> {
        sample_losses(&self.model, &self.data, samples, batch_size)
    }

    fn mean(&self, losses: &[SampleLoss]) -> Evaluation {
        mean_over_bytes(losses)
    }
}

/// Floating-point operations that training takes for a token of rows of `time`: see
/// [`Task::flops_per_input`](super::Task::flops_per_input).
pub(super) fn flops_per_token(model: &Model<CausalLm>, time: usize) -> f64 {
    // A tied embedding is a product too.
    let sizes = model.config();
    let attention = sizes.n_layers * sizes.n_heads * sizes.head_width;
    let in_products = |one: &&Parameter| {
        let name = one.name();
        let is_table = name.contains("embedding")
            || name.contains("embed_positions")
            || (name.contains("embed_tokens") && !sizes.tied_output);
        one.shape().len() == 2 && !is_table && one.requires_grad()
    };
    let parameters = model.weights().parameters().iter();
    let n: usize = parameters
        .filter(in_products)
        .map(Parameter::n_elements)
        .sum();
    (6 * n + 12 * attention * time) as f64
}
