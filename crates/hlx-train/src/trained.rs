//! A trained model, read back from its run.

use std::path::Path;

use anyhow::{Context as _, Result};
use hlx_core::Context;
use hlx_nn::Transformer;

use crate::config::Config;
use crate::run::{Checkpoint, Digests, RunFolder, STATE_FILE, State};
use crate::train::load_model;

/// A model, the configuration it was trained under, and the digests that it was proved by.
pub struct Trained {
    /// The model.
    pub model: Transformer,
    /// Its run's configuration.
    pub config: Config,
    /// Its checkpoint's digests.
    pub digests: Digests,
}

impl Trained {
    /// Reads the newest checkpoint of a run folder, or the checkpoint of this path, and checks
    /// its digests.
    ///
    /// # Errors
    /// A path that is no run, a damaged checkpoint, a device without the memory.
    pub fn open(ctx: &Context, path: &Path) -> Result<Self> {
        let (folder, checkpoint): (RunFolder, Checkpoint) = RunFolder::open_checkpoint(path)?;
        let config = folder.config()?;
        let model = load_model(ctx, &checkpoint, &config)?;
        Ok(Self {
            model,
            config,
            digests: checkpoint.digests,
        })
    }
}

/// Recomputes a checkpoint's digests from its tensors; no device is needed but the CPU.
///
/// # Errors
/// The first digest that is not the one stated.
pub fn prove(checkpoint: &Checkpoint) -> Result<()> {
    let ctx = Context::cpu()?;
    let path = || checkpoint.path().display().to_string();
    let sizes: hlx_nn::TransformerConfig =
        serde_json::from_slice(checkpoint.file(hlx_nn::CONFIG_FILE)?).with_context(path)?;
    let model = Transformer::zeroed(&ctx, &sizes)?;
    model
        .store()
        .load_safetensors(checkpoint.file(hlx_nn::MODEL_FILE)?)
        .with_context(path)?;
    checkpoint.prove(
        "parameters",
        &checkpoint.digests.parameters,
        &model.store().digest()?,
    )?;
    let state = State::from_bytes(checkpoint.file(STATE_FILE)?).with_context(path)?;
    let digest = state.optimizer.digest();
    checkpoint.prove("optimizer's state", &checkpoint.digests.optimizer, &digest)
}
