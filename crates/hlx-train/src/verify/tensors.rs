//! The tensors of a run's states by name: of a checkpoint, and of a state that is computed again.

use std::collections::HashMap;

use anyhow::{Context as _, Result, ensure};
use hlx_core::Device;
use hlx_kernels::tree_digest::{TensorSpan, tree_digest_f32};
use hlx_nn::{CONFIG_FILE, MODEL_FILE, ParameterBuilder, Weights, digested_tensors};

use super::Verification;
use crate::config::{Config, lora_from_bytes};
use crate::run::{Checkpoint, LORA_FILE, RunFolder, STATE_FILE, State};
use crate::task::{Sizes, build_stored};

/// A tensor of a state.
#[derive(Clone, Debug, PartialEq)]
pub struct NamedTensor {
    /// Its name; of the optimizer's tensors with the buffer's: `mean/output.weight`.
    pub name: String,
    /// Its tree digest.
    pub digest: String,
    /// Its values.
    pub values: Vec<f32>,
}

impl NamedTensor {
    fn new(name: String, values: Vec<f32>) -> Self {
        Self {
            name,
            digest: tree_digest_f32(&values).to_string(),
            values,
        }
    }
}

/// Reads the tensors of a checkpoint of a run with this configuration in the order of a record: parameters, the model's
/// buffers, the optimizer's. No device is needed but the CPU.
///
/// # Errors
/// A checkpoint that is damaged, or of another optimizer.
pub fn checkpoint_tensors(checkpoint: &Checkpoint, config: &Config) -> Result<Vec<NamedTensor>> {
    let path = || checkpoint.path().display().to_string();
    let [of_model, of_optimizer] = stored_tensors(checkpoint, config).with_context(path)?;
    let all = of_model.into_iter().chain(of_optimizer);
    Ok(all
        .map(|(span, values)| NamedTensor::new(span.name, values))
        .collect())
}

/// A tensor's name and shape, and its values.
pub(super) type Stored = (TensorSpan, Vec<f32>);

/// The tensors of a checkpoint in the order of a record: of the model, and of the optimizer.
pub(super) fn stored_tensors(checkpoint: &Checkpoint, config: &Config) -> Result<[Vec<Stored>; 2]> {
    let weights = build_stored(checkpoint, declared(checkpoint)?, &Device::cpu()?)?;
    weights.load_safetensors(checkpoint.file(MODEL_FILE)?)?;
    let state = State::from_bytes(checkpoint.file(STATE_FILE)?)?;
    let of_state = state.optimizer.tensors.into_iter();
    let mut values: HashMap<String, Vec<f32>> = weights
        .snapshot()?
        .into_named()
        .chain(of_state.map(|tensor| (tensor.name, tensor.values)))
        .collect();
    let mut stored = |span: TensorSpan| {
        let values = values.remove(&span.name);
        let values = values.with_context(|| format!("has no tensor {}", span.name))?;
        Ok((span, values))
    };
    let [of_model, of_optimizer] = spans(&weights, config)?;
    Ok([
        of_model
            .into_iter()
            .map(&mut stored)
            .collect::<Result<_>>()?,
        of_optimizer
            .into_iter()
            .map(stored)
            .collect::<Result<_>>()?,
    ])
}

/// The tensors of the states of a run in the order of a record: of the model, and of the optimizer.
fn spans(weights: &Weights, config: &Config) -> Result<[Vec<TensorSpan>; 2]> {
    config.freeze(weights)?;
    let optimizer = config.make_optimizer(weights)?;
    Ok(digested_tensors(weights, &*optimizer).map(|lists| lists.concat()))
}

/// The names of the tensors that a run's records have digests of, in their order.
///
/// # Errors
/// A run without a checkpoint, or whose newest is damaged.
pub fn tensor_names(folder: &RunFolder) -> Result<Vec<String>> {
    let place = || folder.path().display().to_string();
    let checkpoint = folder.newest()?;
    let checkpoint = checkpoint.with_context(|| format!("{}: holds no checkpoint yet", place()))?;
    let weights = build_stored(&checkpoint, declared(&checkpoint)?, &Device::cpu()?)?;
    let spans = spans(&weights, &folder.config()?).with_context(place)?;
    Ok(spans.concat().into_iter().map(|span| span.name).collect())
}

/// The model of a checkpoint, declared and without memory.
pub(super) fn declared(checkpoint: &Checkpoint) -> Result<ParameterBuilder> {
    let path = || checkpoint.path().display().to_string();
    let sizes = Sizes::from_bytes(checkpoint.file(CONFIG_FILE)?).with_context(path)?;
    let mut builder = ParameterBuilder::new();
    if checkpoint.digests.files.contains_key(LORA_FILE) {
        builder.with_lora(lora_from_bytes(checkpoint.file(LORA_FILE)?).with_context(path)?);
    }
    sizes.declare(&mut builder)?;
    Ok(builder)
}

impl Verification {
    /// Computes the run's steps up to the state after `step`, and compares nothing. `done` is called after each step.
    ///
    /// # Errors
    /// A step that lies behind; what the device reports.
    pub fn advance(&mut self, step: u64, done: &mut dyn FnMut(u64)) -> Result<()> {
        ensure!(
            step >= self.progress.step,
            "step {step} lies behind step {}",
            self.progress.step
        );
        while self.progress.step < step {
            self.one_step()?;
            done(self.progress.step);
        }
        self.receive()
    }

    /// The digests of the state now, tensor by tensor, in the order of a record.
    ///
    /// # Errors
    /// What the device reports.
    pub fn digests(&self) -> Result<Vec<(String, String)>> {
        let state = self.recorder.digest(&self.engine)?;
        let tensors = state.parameters.tensors.iter();
        let tensors = tensors.chain(&state.optimizer.tensors);
        Ok(tensors
            .map(|tensor| (tensor.name.clone(), tensor.root.to_string()))
            .collect())
    }

    /// The tensors of the state now, in the same order.
    ///
    /// # Errors
    /// What the device reports.
    pub fn tensors(&self) -> Result<Vec<NamedTensor>> {
        let mut values = super::compare::values(&self.engine)?;
        let named = self
            .digests()?
            .into_iter()
            .map(|(name, digest)| NamedTensor {
                values: values.remove(&name).unwrap_or_default(),
                name,
                digest,
            });
        Ok(named.collect())
    }
}
