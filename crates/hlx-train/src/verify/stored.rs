//! Whether the states that checkpoints store are those that the chain's records are of.

use std::collections::HashMap;
use std::path::PathBuf;

use anyhow::{Context as _, Result};
use hlx_core::Device;
use hlx_kernels::tree_digest::{ListDigest, TensorRoot, TensorSpan, tree_digest_f32};
use hlx_nn::{MODEL_FILE, StateDigest};

use super::stretch::check_recorded;
use super::tensors::declared;
use crate::config::Config;
use crate::run::{Chain, ChainRecord, Checkpoint, RunFolder, STATE_FILE, State};

/// The checkpoints of a run, each of whose tensors and place were compared with the chain.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StoredStates {
    /// Their steps.
    pub steps: Vec<u64>,
    /// The first that is another state than its record is of.
    pub other: Option<PathBuf>,
}

impl StoredStates {
    /// Reads every checkpoint of a folder. The digests are computed by the CPU.
    ///
    /// # Errors
    /// A damaged checkpoint, and one whose record the chain lacks.
    pub fn read(folder: &RunFolder, chain: &Chain, config: &Config) -> Result<Self> {
        let mut found = Self::default();
        for (step, path) in folder.listed_checkpoints()? {
            check_recorded(chain, step, &path)?;
            let Some(proved) = chain.at(step) else {
                continue;
            };
            let state = record_of(&Checkpoint::open(&path)?, config)
                .with_context(|| path.display().to_string())?;
            if !proved.record.same_state(&state) && found.other.is_none() {
                found.other = Some(path);
            }
            found.steps.push(step);
        }
        Ok(found)
    }
}

/// The record that a chain must have of a checkpoint's state, without its losses.
fn record_of(checkpoint: &Checkpoint, config: &Config) -> Result<ChainRecord> {
    let device = Device::cpu()?;
    let weights = declared(checkpoint)?.build_zeroed(&device)?;
    weights.load_safetensors(checkpoint.file(MODEL_FILE)?)?;
    let saved = State::from_bytes(checkpoint.file(STATE_FILE)?)?;
    let values: HashMap<String, Vec<f32>> = weights.snapshot()?.into_named().collect();
    let parameters = [weights.spans(""), weights.buffer_spans()].concat();
    let parameters = roots(&parameters, |name| values.get(name).map(Vec::as_slice))?;
    config.freeze(&weights)?;
    let optimizer = config.make_optimizer(&weights)?;
    let buffers = optimizer.buffers().into_iter();
    let spans: Vec<_> = buffers
        .flat_map(|(name, _)| weights.spans(&format!("{name}/")))
        .collect();
    let tensors = &saved.optimizer.tensors;
    let tensors: HashMap<&str, &[f32]> = tensors
        .iter()
        .map(|tensor| (tensor.name.as_str(), tensor.values.as_slice()))
        .collect();
    let optimizer = roots(&spans, |name| tensors.get(name).copied())?;
    let state = StateDigest {
        parameters,
        optimizer,
    };
    let at = saved.progress;
    Ok(ChainRecord::new(at.step, at.epoch, at.batch_idx, &state))
}

/// The digest of named tensors in the order of a record.
fn roots<'a>(
    spans: &[TensorSpan],
    values: impl Fn(&str) -> Option<&'a [f32]>,
) -> Result<ListDigest> {
    let root = |span: &TensorSpan| {
        let values = values(&span.name);
        let values = values.with_context(|| format!("has no tensor {}", span.name))?;
        Ok(TensorRoot {
            name: span.name.clone(),
            shape: span.shape.clone(),
            root: tree_digest_f32(values),
        })
    };
    let tensors = spans.iter().map(root).collect::<Result<Vec<_>>>()?;
    Ok(ListDigest::new(tensors))
}
