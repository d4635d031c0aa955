//! Whether the states that checkpoints store are those that the chain's records are of.

use std::path::PathBuf;

use anyhow::{Context as _, Result};
use hlx_kernels::tree_digest::{ListDigest, TensorRoot, tree_digest_f32};
use hlx_nn::StateDigest;

use super::stretch::check_recorded;
use super::tensors::stored_tensors;
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
    let [parameters, optimizer] = stored_tensors(checkpoint, config)?.map(|tensors| {
        let roots = tensors.into_iter().map(|(span, values)| TensorRoot {
            name: span.name,
            shape: span.shape,
            root: tree_digest_f32(&values),
        });
        ListDigest::new(roots.collect())
    });
    let state = StateDigest {
        parameters,
        optimizer,
    };
    let at = State::from_bytes(checkpoint.file(STATE_FILE)?)?.progress;
    Ok(ChainRecord::new(at.step, at.epoch, at.batch_idx, &state))
}
