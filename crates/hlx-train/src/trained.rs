//! A trained model, read back from its run.

use std::path::Path;
use std::sync::Arc;

use anyhow::{Context as _, Result, ensure};
use hlx_autograd::DType;
use hlx_core::Device;
use hlx_nn::{AVERAGE, CausalLm, InferenceModel, Model, ParameterBuilder, Weights, check_finite};

use crate::config::{Config, Format, lora_from_bytes};
use crate::opening::{Opened, Opening};
use crate::run::{Checkpoint, Digests, LORA_FILE, RunFolder, STATE_FILE, State};
use crate::task::{self, Corpus, Sizes, Task};

/// A language model, the configuration it was trained under, and the digests that it was proved by.
pub struct Trained {
    /// The model.
    pub model: Model<CausalLm>,
    /// Its run's configuration.
    pub config: Config,
    /// Its checkpoint's digests.
    pub digests: Digests,
}

impl Trained {
    /// Reads the newest checkpoint of a run folder, or the checkpoint of this path, and checks
    /// its digests; with `average` the moving average of its weights.
    ///
    /// # Errors
    /// A path that is not a run, a damaged checkpoint or one without an average, a device without the memory.
    pub fn open(device: &Device, path: &Path, average: bool) -> Result<Self> {
        let opening = Opening {
            average,
            ..Opening::default()
        };
        Self::open_in(device, path, opening)
    }

    /// As [`Trained::open`], in the opening's arithmetic.
    pub(crate) fn open_in(device: &Device, path: &Path, opening: Opening<'_>) -> Result<Self> {
        let (folder, checkpoint): (RunFolder, Checkpoint) = RunFolder::open_checkpoint(path)?;
        let config = folder.config()?;
        let device = &device.in_arithmetic(opening.arithmetic.unwrap_or(config.arithmetic))?;
        ensure!(
            config.data.format.is_of_texts(),
            "{}: classifies images, expected a language model",
            path.display()
        );
        let weights = checkpoint.file(hlx_nn::MODEL_FILE)?;
        check_finite(weights).with_context(|| checkpoint.path().display().to_string())?;
        let model = task::load_trained_language(device, &checkpoint, &config)?;
        if opening.average {
            load_average(&checkpoint, model.weights())?;
        }
        Ok(Self {
            model,
            config,
            digests: checkpoint.digests,
        })
    }
}

impl Trained {
    /// As [`Trained::open`], for inference, with the matrices held in the opening's type; returns the model
    /// and the run's configuration.
    ///
    /// # Errors
    /// As [`Trained::open`], an adapter, which is for model folders, and a weight that the type does not reach.
    pub fn open_as(device: &Device, path: &Path, opening: Opening<'_>) -> Result<(Opened, Config)> {
        opening.check_run(path)?;
        let dtype = opening.dtype.unwrap_or(DType::F32);
        if dtype == DType::F32 {
            let trained = Self::open_in(device, path, opening)?;
            return Ok((Opened::Whole(Arc::new(trained.model)), trained.config));
        }
        let trained = Self::open(&Device::cpu()?, path, opening.average)?;
        ensure!(
            trained.model.weights().base().is_none(),
            "{}: its base stays as lora.base stores it, expected no type",
            path.display()
        );
        let arithmetic = opening.arithmetic.unwrap_or(trained.config.arithmetic);
        let device = &device.in_arithmetic(arithmetic)?;
        let declare = task::language(&trained.config, trained.model.config().clone());
        let weights = trained.model.weights();
        let model = InferenceModel::rounded(device, dtype, weights, declare)?;
        Ok((Opened::Half(Arc::new(model)), trained.config))
    }
}

/// Reads the model of the newest checkpoint of a run folder, or of the checkpoint of this path, with
/// data to evaluate it on, which are of the format that it was trained on; returns the checkpoint's
/// digests too. Of the opening, the average and the arithmetic count; without `held_out` no part of prepared
/// tokens is held out of them.
///
/// # Errors
/// A path that is not a run, a damaged checkpoint or one without an average, data that do not fit, a device
/// without the memory.
pub fn open_task(
    device: &Device,
    path: &Path,
    data_path: &Path,
    opening: Opening<'_>,
    held_out: bool,
) -> Result<(Task, Digests)> {
    let (folder, checkpoint): (RunFolder, Checkpoint) = RunFolder::open_checkpoint(path)?;
    let mut config = folder.config()?;
    if !held_out && config.data.format == Format::Shards {
        config.data.eval_fraction = 0.0;
    }
    let corpus = Corpus::load(data_path, &config)?;
    let device = &device.in_arithmetic(opening.arithmetic.unwrap_or(config.arithmetic))?;
    let task = task::make(device, &config, corpus, Some(&checkpoint))?;
    if opening.average {
        load_average(&checkpoint, task.weights())?;
    }
    Ok((task, checkpoint.digests))
}

/// Puts the moving average of a checkpoint in the place of a model's weights, and proves the digest of the
/// optimizer's state, which it is a part of.
fn load_average(checkpoint: &Checkpoint, weights: &Weights) -> Result<()> {
    let path = || checkpoint.path().display().to_string();
    let state = State::from_bytes(checkpoint.file(STATE_FILE)?).with_context(path)?;
    let stated = &checkpoint.digests.optimizer;
    checkpoint.prove("optimizer's state", stated, &state.optimizer.digest())?;
    let mut values = Vec::with_capacity(weights.parameters().len());
    for parameter in weights.parameters() {
        let name = format!("{AVERAGE}/{}", parameter.name());
        let tensors = &state.optimizer.tensors;
        let found = tensors.iter().find(|tensor| tensor.name == name);
        let found = found
            .with_context(|| format!("{}: holds no moving average (train.ema_decay)", path()))?;
        values.push(found.values.clone());
    }
    Ok(weights.upload(weights.values(), &values)?)
}

/// Recomputes a checkpoint's digests from its tensors; no device is needed but the CPU.
///
/// # Errors
/// The first digest that is not the one stated.
pub fn prove(checkpoint: &Checkpoint) -> Result<()> {
    let device = Device::cpu()?;
    let path = || checkpoint.path().display().to_string();
    let sizes = Sizes::from_bytes(checkpoint.file(hlx_nn::CONFIG_FILE)?).with_context(path)?;
    let mut builder = ParameterBuilder::new();
    if checkpoint.digests.files.contains_key(LORA_FILE) {
        builder.with_lora(lora_from_bytes(checkpoint.file(LORA_FILE)?).with_context(path)?);
    }
    sizes.declare(&mut builder)?;
    task::prove_weights(
        checkpoint,
        &task::build_stored(checkpoint, builder, &device)?,
    )?;
    let state = State::from_bytes(checkpoint.file(STATE_FILE)?).with_context(path)?;
    let digest = state.optimizer.digest();
    checkpoint.prove("optimizer's state", &checkpoint.digests.optimizer, &digest)
}
