//! Views, copies and conversions.

use hlx_autograd::{Result, Tensor, gradients_enabled};
use pyo3::prelude::*;

use super::{Handle, launched, viewed};
use crate::arguments::{Argument, Whole};
use crate::copies::cloned;
use crate::device::PyDevice;
use crate::dtype::PyDType;
use crate::tensor::PyTensor;
use crate::wait::{run, run_at_once, wait};

launched! {
    /// Zeros above a diagonal.
    tril(x, diagonal: isize) x.tril(diagonal);
    /// Zeros below a diagonal.
    triu(x, diagonal: isize) x.triu(diagonal);
}

viewed! {
    /// Another shape of the same elements: a view if strides describe it, else a copy.
    reshape(x, shape: Vec<isize>) x.reshape(&shape);
    /// The elements in row-major order: the same memory if they lie so.
    contiguous(x) x.contiguous();
    /// A range of dimensions as one.
    flatten(x, first: isize, last: isize) x.flatten(first, last);
    /// Another shape of the same memory.
    view(x, shape: Vec<isize>) x.view(&shape);
    /// Dimensions in another order.
    permute(x, dims: Vec<isize>) x.permute(&dims);
    /// Two dimensions exchanged.
    transpose(x, first: isize, second: isize) x.transpose(first, second);
    /// Dimensions of extent 1 repeated.
    expand(x, shape: Vec<isize>) x.expand(&shape);
    /// A new dimension of extent 1.
    unsqueeze(x, dim: isize) x.unsqueeze(dim);
    /// Without a dimension of extent 1.
    squeeze(x, dim: isize) x.squeeze(dim);
    /// A dimension as several.
    unflatten(x, dim: isize, shape: Vec<isize>) x.unflatten(dim, &shape);
    /// Each `step`-th place of a range.
    slice(x, dim: isize, start: usize, end: usize, step: usize) x.slice(dim, start..end, step);
    /// Some places of a dimension.
    narrow(x, dim: isize, start: usize, length: usize) x.narrow(dim, start, length);
    /// One place of a dimension, which is dropped.
    select(x, dim: isize, index: usize) x.select(dim, index);
    /// The diagonal of two dimensions, as the last one.
    diagonal(x, offset: isize, dim1: isize, dim2: isize) x.diagonal(offset, dim1, dim2);
    /// Dimensions in reverse order.
    flip(x, dims: Vec<isize>) x.flip(&dims);
    /// Windows of a dimension, as the last one.
    unfold(x, dim: isize, size: usize, step: usize) x.unfold(dim, size, step);
}

/// Parts of `size` places of a dimension.
#[pyfunction]
pub fn split(x: Bound<'_, PyTensor>, size: Whole, dim: isize) -> PyResult<Vec<PyTensor>> {
    let size = usize::of(size, "split", "split_size")?;
    let parts = run_at_once(|| x.get().handle().split(size, dim))?;
    Ok(parts
        .into_iter()
        .map(|part| PyTensor::of(&x, part))
        .collect())
}

/// At most `chunks` parts of a dimension.
#[pyfunction]
pub fn chunk(x: Bound<'_, PyTensor>, chunks: Whole, dim: isize) -> PyResult<Vec<PyTensor>> {
    let chunks = usize::of(chunks, "chunk", "chunks")?;
    let parts = run_at_once(|| x.get().handle().chunk(chunks, dim))?;
    Ok(parts
        .into_iter()
        .map(|part| PyTensor::of(&x, part))
        .collect())
}

/// The same memory without the tape.
#[pyfunction]
pub fn detach(x: &PyTensor) -> PyTensor {
    x.handle().detach().into()
}

/// The values in another type; the tensor itself if it has that type.
#[pyfunction]
pub fn to_dtype<'py>(x: Bound<'py, PyTensor>, dtype: &PyDType) -> PyResult<Bound<'py, PyTensor>> {
    let dtype = dtype.stored("to")?;
    if x.get().handle().dtype() == dtype {
        return Ok(x);
    }
    let converted = x.get().apply(x.py(), move |x| x.to_dtype(dtype))?;
    Bound::new(x.py(), converted)
}

/// The values on another device; the tensor itself if it is there.
#[pyfunction]
pub fn to<'py>(
    x: Bound<'py, PyTensor>,
    device: &Bound<'py, PyAny>,
) -> PyResult<Bound<'py, PyTensor>> {
    let py = x.py();
    let target = PyDevice::from_argument(Some(device))?.open(py)?;
    let handle = x.get().handle();
    let stays =
        handle.device().is_same(&target) && handle.device().arithmetic() == target.arithmetic();
    if stays {
        return Ok(x);
    }
    let from = handle.device().clone();
    let moved = wait(py, &from, move || handle.to(&target))?;
    Bound::new(py, PyTensor::from(moved))
}

/// Whether two tensors have the same shape and elements.
#[pyfunction]
pub fn equal(py: Python<'_>, x: &PyTensor, other: Handle) -> PyResult<bool> {
    let x = x.handle();
    let device = x.device().clone();
    wait(py, &device, move || x.equal(&other))
}

/// Makes x another tensor, and returns it: what `detach_` and `t_` do, which change no value.
#[pyfunction]
pub fn r#become<'py>(x: Bound<'py, PyTensor>, other: &PyTensor) -> Bound<'py, PyTensor> {
    x.get().replace(other.handle());
    x
}

/// A copy that gradients flow through.
#[pyfunction]
pub fn clone(py: Python<'_>, x: &PyTensor) -> PyResult<PyTensor> {
    let x = x.handle();
    run(py, move || cloned(&x)).map(PyTensor::from)
}

/// Writes the values of another tensor, converted and broadcast, and returns x.
#[pyfunction]
pub fn copy_<'py>(x: Bound<'py, PyTensor>, source: Handle) -> PyResult<Bound<'py, PyTensor>> {
    let tracked = gradients_enabled() && source.requires_grad();
    match tracked || x.get().handle().requires_grad() {
        false => x
            .get()
            .change(x.py(), move |x| x.copy_(&source).map(|_| ()))?,
        true => x
            .get()
            .write(x.py(), "copy_", move |x| overwritten(x, &source))?,
    }
    Ok(x)
}

/// The values of `source` as those of x, with the gradient of x that PyTorch has: zero.
fn overwritten(x: &Tensor, source: &Tensor) -> Result<Tensor> {
    let value = source.to_dtype(x.dtype())?.expand(x.shape())?;
    let (zeros, buffer) = (x.detach().zeros_like()?, cloned(&value.detach())?.buffer()?);
    Tensor::from_tensors("copy_", &[x, &value], buffer, x.shape(), move |dy| {
        Ok(vec![Some(zeros.clone()), Some(dy.clone())])
    })
}
