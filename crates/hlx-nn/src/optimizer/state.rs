//! An optimizer's state as plain named values, for checkpoints and digests.

use std::borrow::Cow;
use std::collections::HashMap;

use hlx_core::Buffer;
use hlx_core::digest::TensorHasher;
use hlx_kernels::optimizer::eight_bit;
use serde::{Deserialize, Serialize};

use super::layout::{Packed, StateSpan};
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
    /// The extents: the parameter's, where the state has a float of each element.
    pub shape: Vec<usize>,
    /// The values.
    pub values: Vec<f32>,
}

impl StateTensor {
    /// Whether it holds the floats that bytes stand for.
    fn fits(&self, packed: &Packed) -> bool {
        self.shape == packed.shape && self.values.len() == packed.shape.iter().product::<usize>()
    }
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

/// Downloads a state from whole buffers, whose tensors lie at `spans`.
pub(super) fn export(
    optimizer: &str,
    step: u64,
    buffers: &[(&'static str, &Buffer)],
    spans: impl Fn(&str) -> Vec<StateSpan>,
    weights: &Weights,
) -> Result<OptimizerState> {
    let mut tensors = Vec::new();
    for (buffer_name, buffer) in buffers {
        let words = match buffer.is_empty() {
            true => Vec::new(),
            false => weights.device().download::<f32>(buffer)?,
        };
        for span in spans(buffer_name) {
            tensors.push(StateTensor {
                values: words[span.at..span.at + span.len].to_vec(),
                name: span.name,
                shape: span.shape,
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

/// Decodes the tensors that are bytes.
pub(super) fn unpack(
    state: &mut OptimizerState,
    spans: impl Iterator<Item = StateSpan>,
) -> Result<()> {
    let packed: HashMap<String, Packed> = spans
        .filter_map(|span| Some((span.name, span.packed?)))
        .collect();
    for tensor in &mut state.tensors {
        if let Some(packed) = packed.get(&tensor.name) {
            let mut values = vec![0.0; packed.shape.iter().product()];
            eight_bit::unpack(&tensor.values, packed.is_first, &mut values)?;
            (tensor.values, tensor.shape) = (values, packed.shape.clone());
        }
    }
    Ok(())
}

/// Uploads a state, of which `spans` are the pieces that this process has, after checking all of it.
pub(super) fn import(
    optimizer: &str,
    buffers: &[(&'static str, &Buffer)],
    spans: impl Fn(&str) -> Vec<StateSpan>,
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
        for span in spans(buffer_name) {
            let name = span.name.as_str();
            let Some(tensor) = by_name.remove(name) else {
                return fail(format!("{name} is missing"));
            };
            let values = match &span.packed {
                Some(packed) if tensor.fits(packed) => {
                    Cow::Owned(eight_bit::pack(&tensor.values, packed.is_first))
                }
                _ => Cow::Borrowed(&tensor.values[..]),
            };
            let is_whole = values.len() == span.shape.iter().product::<usize>();
            if !is_whole || (tensor.shape != span.shape && matches!(values, Cow::Borrowed(_))) {
                let (found, expected) = (&tensor.shape, &span.shape);
                return fail(format!("{name} has shape {found:?}, expected {expected:?}"));
            }
            uploads.push((*buffer, span, values));
        }
    }
    if let Some(extra) = by_name.keys().min() {
        return fail(format!("{extra} is no part of it"));
    }
    for (buffer, span, values) in uploads.iter().filter(|(_, span, _)| span.len > 0) {
        let window = buffer.slice(span.at, span.len)?;
        let values = &values[span.first..span.first + span.len];
        match span.packed {
            // Words of bytes are no floats: none of them is flushed.
            Some(_) => {
                let words: Vec<u32> = values.iter().map(|word| word.to_bits()).collect();
                weights.device().upload_words(&window, &words)?;
            }
            None => weights.device().upload(&window, values)?,
        }
    }
    Ok(())
}
