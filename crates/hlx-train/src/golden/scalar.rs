//! The golden scalar: the founding experiment to its end. Plain descent has no state, so the
//! optimizer's digest is over its step alone; the logits are the 256 outputs.

use anyhow::Result;
use hlx_core::Device;
use hlx_core::digest::TensorHasher;
use hlx_nn::OptimizerState;

use super::{GoldenDigests, logits_digest};
use crate::demo::scalar_outputs;

pub(super) fn train(device: &Device) -> Result<GoldenDigests> {
    let (last, outputs) = scalar_outputs(device)?;
    let mut parameters = TensorHasher::new();
    parameters.add("w", &[1], &[last.weight]);
    let state = OptimizerState {
        optimizer: "sgd".to_owned(),
        step: u64::from(last.number),
        tensors: Vec::new(),
    };
    Ok(GoldenDigests {
        parameters: parameters.finish(),
        optimizer: state.digest(),
        logits: logits_digest(&[outputs.len()], &outputs),
    })
}
