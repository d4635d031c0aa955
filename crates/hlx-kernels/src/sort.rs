//! Sorting along an axis: `sort`, `argsort` and `topk`, stable, of tensors of any layout and type.
//!
//! Elements are compared as numbers: -0 and +0 are equal, and NaN is larger than everything, so it
//! is last in ascending and first in descending order. Equal elements keep their order (the lower
//! place first) in both. So the order is total, and every way to reach it gives the same bits.
//! Values are moved as they are: zeros keep their signs and NaN its payload.
//!
//! On a GPU lines of up to 4,096 elements are sorted in shared memory (`sort/rows.comp`, `line.comp`),
//! longer ones by eight passes of a radix sort over 4 bits (`count.comp`, `offsets.comp`,
//! `scatter.comp`). The first few of a line are selected instead (`top.comp`).

use hlx_core::{Buffer, DType, Device};

use crate::error::{Result, check_typed};
use crate::indexing::gather;
use crate::layout::{Layout, Operand};
use crate::pairs::{Second, Sort};
use crate::terms::{check_axis, check_operand, lines};

#[cfg(test)]
mod tests;

/// Sorts `x` along `axis`: `values` (x's shape and type) and `indices` (x's shape, u32: the places
/// along the axis that they had). PyTorch: `torch.sort(x, axis, descending, stable=True)`.
///
/// # Errors
/// As [`topk`], whose `k` is the axis' extent here.
pub fn sort(
    device: &Device,
    x: Operand<'_>,
    axis: usize,
    descending: bool,
    values: &Buffer,
    indices: &Buffer,
) -> Result<()> {
    check_axis("sort", axis, x.layout.shape())?;
    let k = x.layout.shape()[axis];
    select(
        device,
        "sort",
        x,
        axis,
        k,
        descending,
        Some(values),
        indices,
    )
}

/// Writes to `indices` (x's shape, u32) the places along `axis` in the order of their elements.
/// PyTorch: `torch.argsort(x, axis, descending, stable=True)`.
///
/// # Errors
/// As [`sort`].
pub fn argsort(
    device: &Device,
    x: Operand<'_>,
    axis: usize,
    descending: bool,
    indices: &Buffer,
) -> Result<()> {
    check_axis("argsort", axis, x.layout.shape())?;
    let k = x.layout.shape()[axis];
    select(device, "argsort", x, axis, k, descending, None, indices)
}

/// Writes the `k` largest (or smallest) elements along `axis` in their order to `values` (x's type)
/// and their places to `indices` (u32), both contiguous, of x's shape with `k` along the axis. Ties
/// go to the lower place. PyTorch: `torch.topk(x, k, axis, largest, sorted=True)`.
///
/// # Errors
/// [`KernelError::Argument`](crate::KernelError::Argument) for an axis that does not exist, a `k` above its
/// extent, a wrong type of an output, or a tensor beyond 32-bit places on a GPU;
/// [`KernelError::Length`](crate::KernelError::Length) for an output of another length; or the device's error.
#[allow(clippy::too_many_arguments)] // PyTorch's plain arguments.
pub fn topk(
    device: &Device,
    x: Operand<'_>,
    k: usize,
    axis: usize,
    largest: bool,
    values: &Buffer,
    indices: &Buffer,
) -> Result<()> {
    check_axis("topk", axis, x.layout.shape())?;
    select(device, "topk", x, axis, k, largest, Some(values), indices)
}

/// Sorts, and writes the first `k` of each line; the values are gathered by their places.
fn select(
    device: &Device,
    name: &'static str,
    x: Operand<'_>,
    axis: usize,
    k: usize,
    descending: bool,
    values: Option<&Buffer>,
    indices: &Buffer,
) -> Result<()> {
    let (mut shape, dtype) = (x.layout.shape().to_vec(), x.buffer.dtype());
    check_operand(name, "x", x)?;
    let n = std::mem::replace(&mut shape[axis], k);
    check_that!(name, k <= n => "k is {k}, expected at most the {n} elements of axis {axis}")?;
    let layout = Layout::contiguous(&shape)?;
    check_typed(name, "indices", indices, DType::U32, layout.n_elements())?;
    if let Some(values) = values {
        check_typed(name, "values", values, dtype, layout.n_elements())?;
    }
    if indices.is_empty() {
        return Ok(());
    }
    let (part, terms) = lines(device, name, x, axis)?;
    let sort = Sort {
        inner: shape[axis + 1..].iter().product(),
        terms,
        k,
        dtype,
        flip: if descending { u32::MAX } else { 0 },
    };
    let second = match values {
        Some(values) if dtype.per_word() == 1 => Second::Values(values),
        _ => Second::None,
    };
    let is_stored = sort.run(device, name, &part, second, indices)?;
    match (values, second) {
        (None, _) => Ok(()),
        (_, Second::Values(_)) if is_stored => Ok(()),
        (Some(values), _) => {
            let index = Operand::new(indices, &layout);
            gather(device, x, axis, index, values, None)
        }
    }
}
