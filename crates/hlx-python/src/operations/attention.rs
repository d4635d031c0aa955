//! Attention, rotary positions and dropout.

use hlx_autograd::{AttentionSpec, DropoutMask, Result, Tensor};
use hlx_core::DType;
use pyo3::prelude::*;

use super::{Handle, launched};
use crate::random;
use crate::tensor::PyTensor;
use crate::wait::run;

/// The mask of one draw. In a recording its counter is one that moves on from replay to replay.
fn mask(x: &Tensor, p: f32, seed: u64) -> Result<DropoutMask> {
    let device = x.device();
    let counter = device.alloc_typed(DType::U32, 2)?;
    if !random::note(Tensor::from_buffer(device, counter.clone(), &[2])?) {
        device.fill(&counter, 0)?;
    }
    Ok(DropoutMask {
        p,
        seed,
        purpose: 0,
        counter,
    })
}

/// Has masks on this thread note their counters from now on.
#[pyfunction]
pub fn note_counters() {
    random::start_noting();
}

/// Ends that, and returns the counters.
#[pyfunction]
pub fn noted_counters() -> Vec<PyTensor> {
    random::end_noting()
        .into_iter()
        .map(PyTensor::from)
        .collect()
}

/// Writes the number of a replay to a counter.
#[pyfunction]
pub fn set_counter(py: Python<'_>, counter: Handle, replay: u32) -> PyResult<()> {
    run(py, move || {
        let buffer = counter.buffer()?;
        Ok(counter.device().upload(&buffer, &[replay, 0])?)
    })
}

launched! {
    /// Zeroes elements with probability p and scales the others by 1 / (1 - p).
    dropout(x, p: f32, seed: u64) x.dropout(&mask(x, p, seed)?);
    /// Rotary positions.
    rope(x, positions: Handle, frequencies: Handle, scale: f32) x.rope(&positions, &frequencies, scale);
}

/// Attention of queries [B, T, H, D] over keys and values [B, S, K, D].
#[pyfunction]
#[pyo3(signature = (q, k, v, *, causal = false, window = None, scale = None, soft_cap = None, dropout = None,
                    documents = None, lengths = None, first_positions = None))]
#[expect(
    clippy::too_many_arguments,
    reason = "the fields of a specification, all named by the caller"
)]
pub fn attention(
    py: Python<'_>,
    q: Handle,
    k: Handle,
    v: Handle,
    causal: bool,
    window: Option<usize>,
    scale: Option<f32>,
    soft_cap: Option<f32>,
    dropout: Option<(f32, u64)>,
    documents: Option<Handle>,
    lengths: Option<Handle>,
    first_positions: Option<Handle>,
) -> PyResult<PyTensor> {
    let ids = |ids: Option<Handle>| {
        let ids = ids.map(|ids| ids.to_dtype(DType::U32));
        ids.transpose()
    };
    run(py, move || {
        let spec = AttentionSpec {
            causal,
            window,
            scale,
            soft_cap,
            dropout: dropout.map(|(p, seed)| mask(&q, p, seed)).transpose()?,
            documents: ids(documents)?,
            lengths: ids(lengths)?,
            first_positions: ids(first_positions)?,
        };
        q.attention(&k, &v, &spec)
    })
    .map(PyTensor::from)
}
