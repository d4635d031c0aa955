//! Joining, padding and repeating.

use hlx_autograd::{Padding, Tensor};
use pyo3::prelude::*;

use super::{Handle, borrowed, launched};
use crate::error::value_error;
use crate::tensor::PyTensor;
use crate::wait::run;

/// Tensors one after the other along a dimension.
#[pyfunction]
pub fn cat(py: Python<'_>, tensors: Vec<Handle>, dim: isize) -> PyResult<PyTensor> {
    run(py, move || Tensor::cat(&borrowed(&tensors), dim)).map(PyTensor::from)
}

/// Tensors along a new dimension.
#[pyfunction]
pub fn stack(py: Python<'_>, tensors: Vec<Handle>, dim: isize) -> PyResult<PyTensor> {
    run(py, move || Tensor::stack(&borrowed(&tensors), dim)).map(PyTensor::from)
}

/// Elements around a tensor, the last dimension's first: `constant`, `reflect` or `replicate`.
#[pyfunction]
#[pyo3(signature = (x, widths, mode = "constant", value = 0.0))]
pub fn pad(
    py: Python<'_>,
    x: &PyTensor,
    widths: Vec<(isize, isize)>,
    mode: &str,
    value: f32,
) -> PyResult<PyTensor> {
    let padding = match mode {
        "constant" => Padding::Constant(value),
        "reflect" => Padding::Reflect,
        "replicate" => Padding::Replicate,
        other => {
            let text = format!("pad: mode is {other:?}, expected constant, reflect or replicate");
            return Err(value_error(text));
        }
    };
    x.apply(py, move |x| x.pad(&widths, padding))
}

launched! {
    /// Places moved along dimensions, those past the end to the start.
    roll(x, shifts: Vec<isize>, dims: Vec<isize>) x.roll(&shifts, &dims);
    /// The whole tensor several times along each dimension.
    repeat(x, counts: Vec<usize>) x.repeat(&counts);
    /// Each place of a dimension several times.
    repeat_interleave(x, count: usize, dim: isize) x.repeat_interleave(count, dim);
    /// Each place of a dimension as often as a tensor says.
    repeat_interleave_by(x, repeats: Handle, dim: isize) x.repeat_interleave_by(&repeats, dim);
}
