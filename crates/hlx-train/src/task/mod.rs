//! What a run trains, and on what: the seam between the training loop and models and data.
//!
//! The loop, the checkpoints, the chain and the verification know a [`Task`] alone. There are three: a
//! language model over [rows of bytes](LanguageTask) or [of tokens](TokenTask), and a
//! [classifier of images](ImageTask).

mod ahead;
mod corpus;
mod corpus_once;
mod images;
mod images_ahead;
mod labels;
mod language;
mod prepared;
mod rows;
mod sizes;
mod tokens;
mod tokens_ahead;

use std::path::Path;

use anyhow::{Context as _, Result, ensure};
use hlx_autograd::Tensor;
use hlx_core::Device;
use hlx_core::files::{self, parent, place};
use hlx_nn::{
    CONFIG_FILE, CausalModel, Classifier, LanguageModel, LanguageModelConfig, MODEL_FILE, Mode,
    Model, Module, ParameterBuilder, Weights, check_finite, load_language_model,
};

pub use corpus::{Corpus, Images, Tokens};
pub use images::{ImageTask, Reading};
pub use labels::Labels;
pub use language::LanguageTask;
pub use prepared::PreparedRows;
pub use rows::{Batch, BatchSizes, RowTensors, Rows};
pub use sizes::Sizes;
pub use tokens::TokenTask;

use crate::config::{Config, SampleSection};
use crate::data::{Batches, RandomWindows, Split, VOCABULARY};
use crate::evaluate::{Evaluation, SampleLoss};
use crate::model_folder::is_model;
use crate::run::{Checkpoint, DIGESTS_FILE, RunFolder};

/// A model and its data, as the training loop uses them.
pub trait Task {
    /// The model's weights.
    fn weights(&self) -> &Weights;

    /// The model: the inputs of [`Rows`] to one row of logits a target.
    fn module(&self) -> &dyn Module;

    /// The model's sizes, which a checkpoint holds beside the weights.
    fn sizes(&self) -> Sizes;

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

    /// Prepares what [`Task::batch`] draws from.
    ///
    /// # Errors
    /// Data with nothing to train on.
    fn prepare_training(&mut self) -> Result<()> {
        Ok(())
    }

    /// What the data cannot be trained or evaluated on as they are, a line each.
    ///
    /// # Errors
    /// Data that cannot be read.
    fn warnings(&self) -> Result<Vec<String>> {
        Ok(Vec::new())
    }

    /// Puts the samples of a step together and cuts those of this process into micro-batches. Where there
    /// are fewer than a batch has, it begins with empty samples, so that shapes and shards stay what they
    /// are.
    ///
    /// # Errors
    /// A sample that cannot be read.
    fn batch(&self, samples: &[usize], epoch: u64, sizes: BatchSizes) -> Result<Batch>;

    /// As [`Task::batch`], made on this thread: the batches of the run that are made ahead stay.
    ///
    /// # Errors
    /// As [`Task::batch`].
    fn batch_apart(&self, samples: &[usize], epoch: u64, sizes: BatchSizes) -> Result<Batch> {
        self.batch(samples, epoch, sizes)
    }

    /// Computes the logits of rows, one row of them a target.
    ///
    /// # Errors
    /// What the device reports.
    fn forward(&self, rows: &RowTensors, mode: &Mode) -> hlx_nn::Result<Tensor> {
        self.module().forward(&rows.inputs, mode)
    }

    /// As [`Task::forward`], and of a mixture of experts the balance loss of each shard of the pass.
    ///
    /// # Errors
    /// As [`Task::forward`], and a pass that holds a part of a shard.
    fn forward_with_balance(
        &self,
        rows: &RowTensors,
        mode: &Mode,
    ) -> hlx_nn::Result<(Tensor, Option<Tensor>)> {
        match self.language_model() {
            Some(model) => model.logits_and_balance(&rows.input(), mode),
            None => Ok((self.forward(rows, mode)?, None)),
        }
    }

    /// Computes the mean loss over samples without dropout and smoothing, `batch_size` at a time. The
    /// result does not depend on `batch_size`.
    ///
    /// # Errors
    /// What the device reports; samples of which nothing counts.
    fn evaluate(&self, samples: &[usize], batch_size: usize) -> Result<Evaluation> {
        self.mean(&self.sample_losses(samples, batch_size)?)
            .counted()
    }

    /// Computes the losses of samples for [`Task::mean`], in their order. A sample's losses depend neither
    /// on `batch_size` nor on the other samples.
    ///
    /// # Errors
    /// What the device reports.
    fn sample_losses(&self, samples: &[usize], batch_size: usize) -> Result<Vec<SampleLoss>>;

    /// The mean loss over samples, whose losses are added in order; NaN where nothing counts.
    fn mean(&self, losses: &[SampleLoss]) -> Evaluation;

    /// Floating-point operations that training takes for an input (a token) in the products of the model:
    /// 6 for each weight of a product, forward and backward, and those of attention (Chowdhery and others
    /// 2022, appendix B). `None` where nobody counts.
    fn flops_per_input(&self) -> Option<f64> {
        None
    }

    /// The number of classes that a row of logits is over.
    fn n_classes(&self) -> usize;

    /// The model, where inputs are bytes or tokens and it writes text.
    fn language_model(&self) -> Option<&LanguageModel> {
        None
    }

    /// Whether inputs are bytes or tokens, and the model writes text.
    fn is_language(&self) -> bool {
        self.language_model().is_some()
    }

    /// What a language model writes for the prompts of a section: for each a text, or why there is none.
    fn samples(&self, _section: &SampleSection, _seed: u64) -> Vec<SampleText> {
        Vec::new()
    }

    /// The task as a language model's over bytes, for what only such a model does.
    fn as_language(&self) -> Option<&LanguageTask> {
        None
    }

    /// The task as a language model's over tokens.
    fn as_tokens(&self) -> Option<&TokenTask> {
        None
    }

    /// The task as a classifier's of images.
    fn as_images(&self) -> Option<&ImageTask> {
        None
    }
}

/// As [`make`], and prepares the rows of training, which evaluation does without.
///
/// # Errors
/// As [`make`], and data with nothing to train on.
pub(crate) fn make_for_training(
    device: &Device,
    config: &Config,
    corpus: Corpus,
    checkpoint: Option<&Checkpoint>,
) -> Result<Box<dyn Task>> {
    let mut task = make(device, config, corpus, checkpoint)?;
    task.prepare_training()?;
    Ok(task)
}

/// Makes the task of a configuration: its model drawn from the seed, or read from a checkpoint whose
/// digest is proved.
///
/// # Errors
/// Data that do not fit the model; a checkpoint of a model of other sizes, or a damaged one; a device
/// without the memory.
pub fn make(
    device: &Device,
    config: &Config,
    corpus: Corpus,
    checkpoint: Option<&Checkpoint>,
) -> Result<Box<dyn Task>> {
    Ok(match corpus {
        Corpus::Tokens(data) => {
            let model = language_model(device, config, (VOCABULARY, true), checkpoint)?;
            let windows = config.data.has_random_windows().then(|| {
                let split = data.split(config.data.eval_fraction, config.seed);
                RandomWindows::new(&data, split.train.len(), config.seed)
            });
            Box::new(LanguageTask {
                model,
                data,
                windows,
                is_balanced: config.train.router_balance.is_some(),
            })
        }
        Corpus::Shards(data) => {
            let vocabulary = fitting_vocabulary(&data, config)?;
            let model = language_model(device, config, vocabulary, checkpoint)?;
            Box::new(TokenTask::new(model, data, config)?)
        }
        Corpus::Images(data) => {
            let sizes = config.classifier(data.set.shape(), data.set.n_classes())?;
            let declare = |b: &mut ParameterBuilder| Classifier::new(b, &sizes);
            let model = match checkpoint {
                Some(checkpoint) => {
                    let wanted = Sizes::Classifier(sizes.clone());
                    load(device, checkpoint, &wanted, declare)?
                }
                None => {
                    let model = Model::new(device, config.seed, declare)?;
                    load_first_weights(config, model.weights())?;
                    model
                }
            };
            Box::new(ImageTask::new(model, data, config)?)
        }
    })
}

/// The vocabulary of data as [`Tokens::vocabulary`] has it. A tokenizer may have more tokens than the configured
/// model, if the data have none of them, which takes a pass over the data.
fn fitting_vocabulary(data: &Tokens, config: &Config) -> Result<(usize, bool)> {
    let (tokens, fixed) = data.vocabulary();
    match config
        .model
        .vocabulary
        .filter(|&most| fixed && most < tokens)
    {
        None => Ok((tokens, fixed)),
        Some(most) => {
            let what = || {
                format!(
                    "model.vocabulary: {most} is less than the {tokens} tokens of the data's tokenizer"
                )
            };
            data.shards.check_below(most).with_context(what)?;
            Ok((most, true))
        }
    }
}

/// The text of a prompt, or why there is none.
pub type SampleText = std::result::Result<String, String>;

/// Makes the language model of a configuration for data of a vocabulary (see [`Tokens::vocabulary`]).
fn language_model(
    device: &Device,
    config: &Config,
    (tokens, fixed): (usize, bool),
    checkpoint: Option<&Checkpoint>,
) -> Result<Model<LanguageModel>> {
    let sizes = config.language_model(tokens, fixed)?;
    if let Some(checkpoint) = checkpoint {
        return load_language(device, checkpoint, config, sizes);
    }
    let model = Model::new(device, config.seed, language(config, sizes))?;
    load_first_weights(config, model.weights())?;
    Ok(model)
}

/// Reads the language model of a checkpoint, over the vocabulary that it has there, and proves that its
/// parameters have the digest stated there.
///
/// # Errors
/// A run of another kind of model, a model of other sizes than the configuration's, or other
/// parameters than the digest's.
pub(crate) fn load_trained_language(
    device: &Device,
    checkpoint: &Checkpoint,
    config: &Config,
) -> Result<Model<LanguageModel>> {
    let vocabulary = match read_sizes(checkpoint)? {
        Sizes::Language(LanguageModelConfig::Causal(sizes)) => sizes.vocabulary,
        Sizes::Language(LanguageModelConfig::Transformer(sizes)) => sizes.vocabulary,
        Sizes::Classifier(_) => VOCABULARY,
    };
    let sizes = config.language_model(vocabulary, true)?;
    load_language(device, checkpoint, config, sizes)
}

fn load_language(
    device: &Device,
    checkpoint: &Checkpoint,
    config: &Config,
    sizes: LanguageModelConfig,
) -> Result<Model<LanguageModel>> {
    let wanted = Sizes::Language(sizes.clone());
    load(device, checkpoint, &wanted, language(config, sizes))
}

/// Declares a language model, the configuration's adapters included.
pub(crate) fn language(
    config: &Config,
    sizes: LanguageModelConfig,
) -> impl FnOnce(&mut ParameterBuilder) -> hlx_nn::Result<LanguageModel> + use<> {
    let lora = config.lora();
    move |b| {
        if let Some(lora) = lora {
            b.with_lora(lora);
        }
        LanguageModel::new(b, &sizes)
    }
}

/// Reads the weights that a run begins with, where the configuration names some.
fn load_first_weights(config: &Config, weights: &Weights) -> Result<()> {
    let Some(from) = &config.train.init_from else {
        return Ok(());
    };
    let path = Path::new(from);
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let file = place(parent(path), &name);
    let bytes = if file.is_file() {
        files::read(&file).with_context(|| from.clone())?
    } else if is_model(path) && !path.join(DIGESTS_FILE).is_file() {
        let model = load_language_model(&Device::cpu()?, path).context("train.init_from")?;
        model.weights().to_safetensors()?
    } else {
        let (_, checkpoint) = RunFolder::open_checkpoint(path).context("train.init_from")?;
        checkpoint.file(MODEL_FILE)?.to_vec()
    };
    let loaded = check_finite(&bytes).and_then(|()| weights.load_base_safetensors(&bytes));
    loaded.with_context(|| format!("train.init_from: {from}"))
}

/// Reads the model of a checkpoint, whose sizes must be as wanted.
fn load<M>(
    device: &Device,
    checkpoint: &Checkpoint,
    wanted: &Sizes,
    declare: impl FnOnce(&mut ParameterBuilder) -> hlx_nn::Result<M>,
) -> Result<Model<M>> {
    let name = || checkpoint.path().display().to_string();
    let sizes = read_sizes(checkpoint)?;
    ensure!(
        sizes == *wanted,
        "{}: is of another model than the run's config.toml: {sizes:?}",
        name()
    );
    let model = Model::zeroed(device, declare)?;
    prove_weights(checkpoint, model.weights())?;
    Ok(model)
}

fn read_sizes(checkpoint: &Checkpoint) -> Result<Sizes> {
    let sizes = Sizes::from_bytes(checkpoint.file(CONFIG_FILE)?);
    sizes.with_context(|| checkpoint.path().display().to_string())
}

/// Reads the weights of a checkpoint into those of a model, and proves their digest.
pub(crate) fn prove_weights(checkpoint: &Checkpoint, weights: &Weights) -> Result<()> {
    let name = || checkpoint.path().display().to_string();
    let loaded = weights.load_safetensors(checkpoint.file(MODEL_FILE)?);
    loaded.with_context(name)?;
    let stated = &checkpoint.digests.parameters;
    checkpoint.prove("parameters", stated, &weights.digest()?)
}
