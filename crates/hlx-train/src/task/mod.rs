//! What a run trains, and on what: the seam between the training loop and models and data.
//!
//! A [`Task`] is one of three kinds: a language model over [rows of bytes](LanguageTask) or [of
//! tokens](TokenTask), or a [classifier of images](ImageTask). The loop, the checkpoints, the chain and the
//! verification use what all of them have.

mod ahead;
mod corpus;
mod corpus_once;
mod images;
mod images_ahead;
mod labels;
mod language;
mod make;
mod over_base;
mod prepared;
mod sizes;
mod tokens;
mod tokens_ahead;

use std::ops::Deref;

use anyhow::Result;
use hlx_autograd::Tensor;
use hlx_nn::{CausalLm, CausalModel, Classifier, Mode, Model, Module, Weights};

pub use corpus::{Corpus, Images, Tokens};
pub use images::{ImageTask, Reading};
pub use labels::Labels;
pub use language::LanguageTask;
pub use make::make;
pub(crate) use make::{language, load_trained_language, make_for_training, prove_weights};
pub(crate) use over_base::{StatedBase, build_stored};
pub use prepared::PreparedRows;
pub use sizes::Sizes;
pub use tokens::TokenTask;

use crate::config::SampleSection;
use crate::data::{Batches, Split};
use crate::evaluate::{Evaluation, SampleLoss};
use crate::rows::{Batch, BatchSizes, RowTensors};
use language::flops_per_token;

/// The text of a prompt, or why there is none.
pub type SampleText = std::result::Result<String, String>;

/// A model and its data, as the training loop uses them. What is done with its samples are methods of
/// [`Samples`].
pub enum Task {
    /// A language model over pairs or a text, byte by byte.
    Bytes(Box<LanguageTask>),
    /// A language model over prepared tokens.
    Tokens(Box<TokenTask>),
    /// A classifier of images.
    Images(Box<ImageTask>),
}

/// The samples of a task.
pub trait Samples {
    /// SHA-256 of the data.
    fn digest(&self) -> &str;

    /// The number of samples.
    fn n_samples(&self) -> usize;

    /// Splits the samples into those to train on and those held out: `fraction` of them, one at least
    /// if it is above 0.
    fn split(&self, fraction: f64, seed: u64) -> Split;

    /// The batches of the samples that are trained on: each once an epoch, in an order drawn by the
    /// seed, unless the task draws its samples itself.
    fn batches(&self, train: &[usize], batch_size: usize, seed: u64) -> Batches {
        Batches::new(train.to_vec(), batch_size, seed)
    }

    /// Puts the samples of a step together and cuts those of this process into micro-batches. Where there
    /// are fewer than a batch has, it begins with empty samples, so that shapes and shards stay what they
    /// are.
    ///
    /// # Errors
    /// A sample that cannot be read.
    fn batch(&self, samples: &[usize], epoch: u64, sizes: BatchSizes) -> Result<Batch>;

    /// As [`Samples::batch`], made on this thread: the batches of the run that are made ahead stay.
    ///
    /// # Errors
    /// As [`Samples::batch`].
    fn batch_apart(&self, samples: &[usize], epoch: u64, sizes: BatchSizes) -> Result<Batch> {
        self.batch(samples, epoch, sizes)
    }

    /// Computes the losses of samples for [`Samples::mean`], in their order. A sample's losses depend neither
    /// on `batch_size` nor on the other samples.
    ///
    /// # Errors
    /// What the device reports.
    fn sample_losses(&self, samples: &[usize], batch_size: usize) -> Result<Vec<SampleLoss>>;

    /// The mean loss over samples, whose losses are added in order; NaN where nothing counts.
    fn mean(&self, losses: &[SampleLoss]) -> Evaluation;
}

impl Deref for Task {
    type Target = dyn Samples;

    fn deref(&self) -> &Self::Target {
        match self {
            Self::Bytes(task) => &**task,
            Self::Tokens(task) => &**task,
            Self::Images(task) => &**task,
        }
    }
}

/// The model of a task.
enum TaskModel<'a> {
    Language(&'a Model<CausalLm>),
    Classifier(&'a Model<Classifier>),
}

impl Task {
    fn model(&self) -> TaskModel<'_> {
        match self {
            Self::Bytes(task) => TaskModel::Language(&task.model),
            Self::Tokens(task) => TaskModel::Language(&task.model),
            Self::Images(task) => TaskModel::Classifier(&task.model),
        }
    }

    /// The model's weights.
    pub fn weights(&self) -> &Weights {
        match self.model() {
            TaskModel::Language(model) => model.weights(),
            TaskModel::Classifier(model) => model.weights(),
        }
    }

    /// The model's sizes, which a checkpoint holds beside the weights.
    pub fn sizes(&self) -> Sizes {
        match self.model() {
            TaskModel::Language(model) => Sizes::Language(Box::new(model.config().clone())),
            TaskModel::Classifier(model) => Sizes::Classifier(model.config().clone()),
        }
    }

    /// The number of classes that a row of logits is over.
    pub fn n_classes(&self) -> usize {
        match self.model() {
            TaskModel::Language(model) => model.vocabulary(),
            TaskModel::Classifier(model) => model.config().classes,
        }
    }

    /// Computes the logits of rows, one row of them a target.
    ///
    /// # Errors
    /// What the device reports.
    pub fn forward(&self, rows: &RowTensors, mode: &Mode) -> hlx_nn::Result<Tensor> {
        match self.model() {
            TaskModel::Language(model) => model.logits(&rows.input(), mode),
            TaskModel::Classifier(model) => model.forward(&rows.inputs, mode),
        }
    }

    /// As [`Task::forward`], and of a mixture of experts the balance loss of each shard of the pass.
    ///
    /// # Errors
    /// As [`Task::forward`], and a pass that holds a part of a shard.
    pub fn forward_with_balance(
        &self,
        rows: &RowTensors,
        mode: &Mode,
    ) -> hlx_nn::Result<(Tensor, Option<Tensor>)> {
        match self.model() {
            TaskModel::Language(model) => model.logits_and_balance(&rows.input(), mode),
            TaskModel::Classifier(_) => Ok((self.forward(rows, mode)?, None)),
        }
    }

    /// What the data cannot be trained or evaluated on as they are, one line each.
    ///
    /// # Errors
    /// Data that cannot be read.
    pub fn warnings(&self) -> Result<Vec<String>> {
        match self {
            Self::Tokens(task) => task.rows.warnings(),
            Self::Bytes(_) | Self::Images(_) => Ok(Vec::new()),
        }
    }

    /// Computes the mean loss over samples without dropout and smoothing, `batch_size` at a time. The
    /// result does not depend on `batch_size`.
    ///
    /// # Errors
    /// What the device reports; samples of which nothing counts.
    pub fn evaluate(&self, samples: &[usize], batch_size: usize) -> Result<Evaluation> {
        self.mean(&self.sample_losses(samples, batch_size)?)
            .counted()
    }

    /// Floating-point operations that training takes for an input (a token) in the products of the model:
    /// 6 for each weight of a product, forward and backward, and those of attention (Chowdhery and others
    /// 2022, appendix B). `None` where nobody counts.
    pub fn flops_per_input(&self) -> Option<f64> {
        match self {
            Self::Bytes(task) => Some(flops_per_token(&task.model, task.model.max_positions())),
            Self::Tokens(task) => Some(flops_per_token(&task.model, task.rows.length())),
            Self::Images(_) => None,
        }
    }

    /// What a language model writes for the prompts of a section: for each a text, or why there is none.
    pub fn texts(&self, section: &SampleSection, seed: u64) -> Vec<SampleText> {
        match self {
            Self::Bytes(task) => task.texts(section, seed),
            Self::Tokens(task) => task.texts(section, seed),
            Self::Images(_) => Vec::new(),
        }
    }
}
