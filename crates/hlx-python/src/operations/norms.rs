//! Softmax, norms and embeddings.

use hlx_autograd::{BatchNormOptions, RunningStatistics};
use pyo3::prelude::*;

use super::{Handle, launched};
use crate::error::value_error;
use crate::tensor::PyTensor;
use crate::wait::checked;

/// Gain and bias, which come together.
type Affine = Option<(Handle, Handle)>;

launched! {
    /// Powers of e over their sum along a dimension.
    softmax_dim(x, dim: isize) x.softmax_dim(dim);
    /// Their logarithms.
    log_softmax(x, dim: isize) x.log_softmax(dim);
    /// Rows of mean 0 and variance 1, times a gain plus a bias.
    layer_norm(x, weight: Handle, bias: Handle, eps: f32) x.layer_norm(&weight, &bias, eps);
    /// Rows over the root of their mean square.
    rms_norm(x, normalized: Vec<usize>, weight: Option<Handle>, eps: f32)
        x.rms_norm(&normalized, weight.as_deref(), eps);
    /// Groups of channels of mean 0 and variance 1.
    group_norm(x, groups: usize, affine: Affine, eps: f32)
        x.group_norm(groups, affine.as_ref().map(|(gain, bias)| [&gain.0, &bias.0]), eps);
    /// Channels by a given mean and variance.
    batch_norm_by(x, mean: Handle, variance: Handle, affine: Affine, eps: f32)
        x.batch_norm_by(&mean, &variance, affine.as_ref().map(|(gain, bias)| [&gain.0, &bias.0]), eps);
    /// Rows of a table by their numbers.
    embedding(x, weight: Handle) {
        let index = x.to_dtype(hlx_core::DType::U32)?;
        checked(x, index.embedding(&weight)?)
    };
    /// The same, without a gradient for one row.
    embedding_padded(x, weight: Handle, padding_idx: usize) {
        let index = x.to_dtype(hlx_core::DType::U32)?;
        checked(x, index.embedding_padded(&weight, padding_idx)?)
    };
}

/// Channels of mean 0 and variance 1 over the batch; moves running mean, variance and count if they are given.
#[pyfunction]
pub fn batch_norm(
    py: Python<'_>,
    x: &PyTensor,
    affine: Affine,
    running: Option<Vec<Handle>>,
    momentum: Option<f32>,
    eps: f32,
) -> PyResult<PyTensor> {
    if running.as_ref().is_some_and(|running| running.len() != 3) {
        return Err(value_error(
            "batch_norm: expected running mean, variance and count",
        ));
    }
    x.apply(py, move |x| {
        let affine = affine.as_ref().map(|(gain, bias)| [&gain.0, &bias.0]);
        let running = running.as_ref().map(|running| RunningStatistics {
            mean: &running[0],
            variance: &running[1],
            tracked: &running[2],
        });
        let options = BatchNormOptions {
            eps,
            momentum,
            ..BatchNormOptions::default()
        };
        x.batch_norm(affine, running, &options)
    })
}
