//! An optimizer's state as plain named values, for checkpoints and digests.

use std::collections::HashMap;

use hlx_core::Buffer;
use hlx_core::digest::TensorHasher;
use serde::{Deserialize, Serialize};

use crate::error::NnError;
use crate::{Result, Weights};

/// A whole state.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct OptimizerState {
    /// The algorithm, such as `adamw`.
    pub optimizer: String,
    /// The number of steps taken.
    pub step: u64,
    /// The tensors, such as `mean/blocks.0.attention.qkv.weight`, sorted by name.
    pub tensors: Vec<StateTensor>,
}

/// One tensor of a state.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct StateTensor {
    /// The buffer's name, a slash and the parameter's name.
    pub name: String,
    /// The parameter's extents.
    pub shape: Vec<usize>,
    /// The values.
    pub values: Vec<f32>,
}

impl OptimizerState {
    /// Returns the SHA-256 over the tensors and the step.
    pub fn digest(&self) -> String {
        let mut hasher = TensorHasher::new();
        for tensor in &self.tensors {
            hasher.add(&tensor.name, &tensor.shape, &tensor.values);
        }
        Self::digest_of(hasher, &self.optimizer, self.step)
    }

    /// Returns the digest of a state whose tensors were added, in the order of their names.
    pub fn digest_of(mut tensors: TensorHasher, optimizer: &str, step: u64) -> String {
        // The step as the shape of an empty tensor: the hash takes lengths of 64 bits.
        tensors.add(optimizer, &[step as usize], &[]);
        tensors.finish()
    }
}

/// Downloads a state.
pub(super) fn export(
    optimizer: &str,
    step: u64,
    buffers: &[(&'static str, &Buffer)],
    weights: &Weights,
) -> Result<OptimizerState> {
    let mut tensors = Vec::new();
    for (buffer_name, buffer) in buffers {
        for (parameter, values) in weights.parameters().iter().zip(weights.download(buffer)?) {
            let name = format!("{buffer_name}/{}", parameter.name());
            tensors.push(StateTensor {
                name,
                shape: parameter.shape().to_vec(),
                values,
            });
        }
    }
    tensors.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(OptimizerState {
        optimizer: optimizer.to_owned(),
        step,
        tensors,
    })
}

/// Uploads a state after checking all of it.
pub(super) fn import(
    optimizer: &str,
    buffers: &[(&'static str, &Buffer)],
    weights: &Weights,
    saved: &OptimizerState,
) -> Result<()> {
    let fail = |reason: String| Err(NnError::mismatch("optimizer state", reason));
    if saved.optimizer != optimizer {
        return fail(format!(
            "it is of {}, expected {optimizer}",
            saved.optimizer
        ));
    }
    let mut by_name: HashMap<&str, &StateTensor> = saved
        .tensors
        .iter()
        .map(|tensor| (tensor.name.as_str(), tensor))
        .collect();
    let mut uploads = Vec::new();
    for (buffer_name, buffer) in buffers {
        let mut values = Vec::new();
        for parameter in weights.parameters() {
            let name = format!("{buffer_name}/{}", parameter.name());
            let Some(tensor) = by_name.remove(name.as_str()) else {
                return fail(format!("{name} is missing"));
            };
            if tensor.shape != parameter.shape() || tensor.values.len() != parameter.n_elements() {
                let (found, expected) = (&tensor.shape, parameter.shape());
                return fail(format!("{name} has shape {found:?}, expected {expected:?}"));
            }
            values.push(&tensor.values);
        }
        uploads.push((*buffer, values));
    }
    if let Some(extra) = by_name.keys().min() {
        return fail(format!("{extra} is no part of it"));
    }
    for (buffer, values) in uploads {
        weights.upload_updated(buffer, &values)?;
    }
    Ok(())
}
