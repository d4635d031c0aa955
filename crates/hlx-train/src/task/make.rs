//! Makes the task of a configuration: its model drawn, or read from a checkpoint.

use std::path::Path;

use anyhow::{Context as _, Result, ensure};
use hlx_core::Device;
use hlx_core::files::{self, parent, place};
use hlx_gguf::Gguf;
use hlx_nn::{
    CONFIG_FILE, CausalConfig, CausalLm, Classifier, MODEL_FILE, Model, ParameterBuilder, Weights,
    check_finite, load_language_model,
};

use super::over_base::{check_stated, over_base};
use super::{Corpus, ImageTask, LanguageTask, Sizes, Task, TokenTask, Tokens};
use crate::config::{Base, Config};
use crate::data::{RandomWindows, VOCABULARY};
use crate::opening::is_model;
use crate::run::{Checkpoint, DIGESTS_FILE, RunFolder};

/// As [`make`], and prepares the rows of training, which evaluation does without.
///
/// # Errors
/// As [`make`], and data with nothing to train on.
pub(crate) fn make_for_training(
    device: &Device,
    config: &Config,
    corpus: Corpus,
    checkpoint: Option<&Checkpoint>,
) -> Result<Task> {
    let mut task = make(device, config, corpus, checkpoint)?;
    if let Task::Tokens(task) = &mut task {
        task.prepare_training()?;
    }
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
) -> Result<Task> {
    Ok(match corpus {
        Corpus::Tokens(data) => {
            let model = language_model(device, config, VOCABULARY, true, checkpoint)?;
            let windows = config.data.has_random_windows().then(|| {
                let split = data.split(config.data.eval_fraction, config.seed);
                RandomWindows::new(&data, split.train.len(), config.seed)
            });
            Task::Bytes(Box::new(LanguageTask {
                model,
                data,
                windows,
                is_balanced: config.train.router_balance.is_some(),
            }))
        }
        Corpus::Shards(data) => {
            let (tokens, fixed) = fitting_vocabulary(&data, config)?;
            let model = language_model(device, config, tokens, fixed, checkpoint)?;
            Task::Tokens(Box::new(TokenTask::new(model, data, config)?))
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
            Task::Images(Box::new(ImageTask::new(model, data, config)?))
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

/// Makes the language model of a configuration for data of a vocabulary (see [`Tokens::vocabulary`]).
fn language_model(
    device: &Device,
    config: &Config,
    tokens: usize,
    fixed: bool,
    checkpoint: Option<&Checkpoint>,
) -> Result<Model<CausalLm>> {
    let sizes = config.language_model(tokens, fixed)?;
    if let Some(base) = config.base()? {
        return adapted(device, config, &base, sizes, checkpoint);
    }
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
) -> Result<Model<CausalLm>> {
    let vocabulary = match read_sizes(checkpoint)? {
        Sizes::Language(sizes) => sizes.vocabulary,
        Sizes::Classifier(_) => VOCABULARY,
    };
    let sizes = config.language_model(vocabulary, true)?;
    if let Some(base) = config.base()? {
        return adapted(device, config, &base, sizes, Some(checkpoint));
    }
    load_language(device, checkpoint, config, sizes)
}

/// Makes the language model of a configuration over its base: with new adapters, or with those of a checkpoint.
fn adapted(
    device: &Device,
    config: &Config,
    base: &Base,
    sizes: CausalConfig,
    checkpoint: Option<&Checkpoint>,
) -> Result<Model<CausalLm>> {
    if let Some(checkpoint) = checkpoint {
        check_sizes(checkpoint, &Sizes::Language(Box::new(sizes.clone())))?;
        check_stated(checkpoint, config)?;
    }
    let model = over_base(device, config, base, language(config, sizes))?;
    if let Some(checkpoint) = checkpoint {
        prove_weights(checkpoint, model.weights())?;
    }
    Ok(model)
}

fn load_language(
    device: &Device,
    checkpoint: &Checkpoint,
    config: &Config,
    sizes: CausalConfig,
) -> Result<Model<CausalLm>> {
    let wanted = Sizes::Language(Box::new(sizes.clone()));
    load(device, checkpoint, &wanted, language(config, sizes))
}

/// Declares a language model, the configuration's adapters included.
pub(crate) fn language(
    config: &Config,
    sizes: CausalConfig,
) -> impl FnOnce(&mut ParameterBuilder) -> hlx_nn::Result<CausalLm> + use<> {
    let lora = config.lora();
    move |b| {
        if let Some(lora) = lora {
            b.with_lora(lora);
        }
        CausalLm::new(b, &sizes)
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
    let bytes = if file.is_file() && !Gguf::is_gguf(&file) {
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
    check_sizes(checkpoint, wanted)?;
    let model = Model::zeroed(device, declare)?;
    prove_weights(checkpoint, model.weights())?;
    Ok(model)
}

fn check_sizes(checkpoint: &Checkpoint, wanted: &Sizes) -> Result<()> {
    let sizes = read_sizes(checkpoint)?;
    ensure!(
        sizes == *wanted,
        "{}: is of another model than the run's config.toml: {sizes:?}",
        checkpoint.path().display()
    );
    Ok(())
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
