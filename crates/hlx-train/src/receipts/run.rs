//! What a run's folder says of the weights of its answers: how they were trained, and that this can be recomputed.

use std::path::Path;
use std::sync::Arc;

use anyhow::{Context as _, Result, ensure};
use hlx_core::Device;
use hlx_receipt::ModelDigests;
use serde::Serialize;

use super::model::list_digest;
use crate::model_folder::is_run;
use crate::opening::Opened;
use crate::run::{Chain, RunFolder, tensor_digits};
use crate::trained::Trained;

/// The place of weights in the chain of a run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Training {
    /// Steps done.
    pub step: u64,
    /// The digest of the chain's record of this step.
    pub record: String,
    /// The SHA-256 of the corpus.
    pub data: String,
}

/// The place of a model's weights in the chain of the run that it was read from, or of the moving average of them;
/// `None` for a model that is none of a run.
///
/// # Errors
/// A chain without the record of the checkpoint, and weights that are not those of the record.
pub fn training_of(path: &Path, average: bool, digests: &ModelDigests) -> Result<Option<Training>> {
    if !is_run(path)? {
        return Ok(None);
    }
    let (run, checkpoint) = RunFolder::open_checkpoint(path)?;
    let (step, named) = (checkpoint.digests.step, &checkpoint.digests.record);
    let chain = Chain::read(&run.chain_path())?;
    let found = chain.at(step).filter(|found| found.digest == *named);
    let found = found.with_context(|| {
        let path = chain.path().display();
        format!("{path}: has no record of step {step} that the checkpoint names")
    })?;
    // In f32, as they were trained, whatever type they are held in for answers.
    let trained = Trained::open(&Device::cpu()?, path, average)?;
    let list = list_digest(&Opened::Whole(Arc::new(trained.model)))?;
    let record = &found.record;
    let is_recorded = match average {
        false => list.root.to_string() == record.parameters,
        true => {
            let mut roots = list
                .tensors
                .iter()
                .map(|tensor| tensor_digits(&tensor.root));
            roots.all(|root| record.tensors.contains(&root))
        }
    };
    ensure!(
        is_recorded,
        "{}: the weights are not those of the chain's record of step {step}",
        checkpoint.path().display()
    );
    let own = digests.weights_sha256.to_string();
    ensure!(
        digests.dtype != "f32" || own == list.root.to_string(),
        "{}: the weights have changed since they were read",
        checkpoint.path().display()
    );
    Ok(Some(Training {
        step,
        record: found.digest.clone(),
        data: checkpoint.digests.data.clone(),
    }))
}
