//! Copies of strided operands: into a contiguous buffer, converted where the types differ, and into
//! a strided layout.
//!
//! `convert.rs` has the rules of conversion. Copies within a type keep the bits. What is fast
//! on a GPU: short contiguous operands are one copy of memory; long ones and rows that are contiguous on both sides go
//! by vectors of four words; and where the innermost dimension of one side is another dimension of
//! the other, tiles are transposed in shared memory. Rows of a narrow type are words where both
//! sides start and end with a word; elsewhere each element's place is computed by itself.

use hlx_core::{Buffer, DType, Device};

use super::frame::{copy_bits, copy_elements};
use super::moves::Move;
use crate::convert::Form;
use crate::element::compute_type;
use crate::error::{KernelError, Result, check_len};
use crate::layout::{Layout, Operand, broadcast_shape};

/// Writes the elements of `x` in row-major order to `out`, converted to its type. PyTorch:
/// `x.to(dtype).contiguous()`.
///
/// # Errors
/// [`KernelError::Length`] for an output of another length;
/// [`KernelError::Argument`] for operands larger than the device binds; the
/// device's error.
pub fn copy_strided(device: &Device, x: Operand<'_>, out: &Buffer) -> Result<()> {
    const NAME: &str = "copy_strided";
    check_len(NAME, "out", out, x.layout.n_elements())?;
    if out.is_empty() {
        return Ok(());
    }
    match x.buffer.dtype() == out.dtype() {
        true => copy_bits(device, x, out),
        false => convert(device, x, out),
    }
}

/// Writes `x`, broadcast to the layout of `out`, to the places of that layout; other elements stay.
/// PyTorch: `out.copy_(x)`.
///
/// The layout is one that slices, permutations, flips and diagonals make of a contiguous one. Where
/// the types differ, a converted contiguous copy is made first. Types of one and two bytes are
/// written word by word: each word that holds elements of the layout is read and written whole.
///
/// # Errors
/// [`KernelError::Argument`] if `x` does not broadcast, if elements of the layout
/// overlap (or their order cannot be told by the strides), for operands larger than the device binds and for
/// operands that share memory; the device's error.
pub fn assign_strided(device: &Device, x: Operand<'_>, out: Operand<'_>) -> Result<()> {
    const NAME: &str = "assign_strided";
    let (shape, found) = (out.layout.shape(), x.layout.shape());
    let fits = broadcast_shape(&[shape, found]).is_some_and(|joint| joint == shape);
    check_that!(NAME, fits => "x has shape {found:?}, expected one that broadcasts to {shape:?}")?;
    if out.layout.n_elements() == 0 {
        return Ok(());
    }
    if x.buffer.dtype() == out.buffer.dtype() {
        return Move::new(NAME, x, out)?.launch(device, false);
    }
    let converted = device.alloc_typed(out.buffer.dtype(), x.layout.n_elements())?;
    convert(device, x, &converted)?;
    let layout = Layout::contiguous(found)?;
    Move::new(NAME, Operand::new(&converted, &layout), out)?.launch(device, false)
}

/// A contiguous copy of an operand with its dimensions in another order.
///
/// # Errors
/// As [`copy_strided`], and if `order` is no permutation of the dimensions.
pub(crate) fn permuted(
    device: &Device,
    name: &'static str,
    x: Operand<'_>,
    order: &[usize],
) -> Result<Buffer> {
    let layout = x
        .layout
        .permute(order)
        .map_err(KernelError::argument(name))?;
    let copy = device.alloc(layout.n_elements())?;
    copy_strided(device, Operand::new(x.buffer, &layout), &copy)?;
    Ok(copy)
}

fn convert(device: &Device, x: Operand<'_>, out: &Buffer) -> Result<()> {
    let (from, to) = (x.buffer.dtype(), out.dtype());
    let compute = match from.is_float() || to.is_float() {
        true => DType::F32,
        false => compute_type(from),
    };
    copy_elements(device, x, out, compute, [from, to].map(Form::Of))
}

#[cfg(test)]
mod tests;
