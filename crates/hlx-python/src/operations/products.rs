//! Products of matrices.

use hlx_autograd::Tensor;
use pyo3::prelude::*;

use super::{Handle, borrowed, launched};
use crate::tensor::PyTensor;
use crate::wait::run;

launched! {
    /// The product of matrices, vectors or stacks of them.
    matmul(x, other: Handle) x.matmul(&other);
    /// The products of each pair of elements of two vectors.
    outer(x, other: Handle) x.outer(&other);
    /// x W^T + b.
    linear(x, weight: Handle, bias: Option<Handle>) x.linear(&weight, bias.as_deref());
}

/// Sums of products by an expression.
#[pyfunction]
pub fn einsum(py: Python<'_>, expression: &str, operands: Vec<Handle>) -> PyResult<PyTensor> {
    run(py, || Tensor::einsum(expression, &borrowed(&operands))).map(PyTensor::from)
}
