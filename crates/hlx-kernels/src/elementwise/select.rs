//! Elements chosen by a condition: `out[i] = condition[i] ? a[i] : b[i]`, and a value where a mask
//! holds. What is chosen keeps its bits, where no type changes.

use hlx_core::{Buffer, DType, Device};

use super::copy::copy_strided;
use super::frame::Elements;
use super::strided::joint;
use crate::convert::{Form, bits_of};
use crate::element::compute_type;
use crate::error::Result;
use crate::layout::{Layout, Operand, Walk};

shader!(select::{select as select_shader, masked_fill});

/// Dimensions of a walk over three operands that push constants have room for.
const MAX_DIMENSIONS: usize = 7;

/// Writes `a` where `condition` holds, else `b`, over their joint shape. PyTorch: `torch.where`.
///
/// Operands of another type than the output are converted as [`copy_strided`] does; a float operand
/// needs a float output.
///
/// # Errors
/// [`KernelError::Argument`](crate::KernelError::Argument) for a condition that is no `bool`, a float operand
/// of an output that is none, shapes that do not broadcast, and operands larger than the device binds;
/// [`KernelError::Length`](crate::KernelError::Length) for an output of another length; the device's error.
pub fn select(
    device: &Device,
    condition: Operand<'_>,
    a: Operand<'_>,
    b: Operand<'_>,
    out: &Buffer,
) -> Result<()> {
    const NAME: &str = "select";
    check_mask(NAME, "condition", condition)?;
    let to = out.dtype();
    for (argument, operand) in [("a", a), ("b", b)] {
        let dtype = operand.buffer.dtype();
        check_that!(NAME, to.is_float() || !dtype.is_float() =>
            "{argument} is {dtype}, expected an integer type or bool, as out is {to}")?;
    }
    let operands = [("condition", condition), ("a", a), ("b", b)];
    let layouts = joint(NAME, operands, out)?;
    if out.is_empty() {
        return Ok(());
    }
    if Walk::along(layouts.each_ref()).shape.len() > MAX_DIMENSIONS {
        return select_copies(device, operands, &layouts, out);
    }
    let raw = a.buffer.dtype() == to && b.buffer.dtype() == to;
    let form = if raw { Form::raw } else { Form::Of };
    let [of_a, of_b] = [a, b].map(|x| form(x.buffer.dtype()));
    let kernel = Elements {
        name: NAME,
        shader: &select_shader::SHADER,
        compute: if raw { DType::U32 } else { compute_type(to) },
        parameters: [0; 2],
        operands,
        forms: [Form::Of(DType::Bool), of_a, of_b],
        out_form: form(to),
    };
    kernel.launch(device, out, |[condition, a, b], out| {
        let operands = condition.iter().zip(a.iter().zip(b));
        for (out, (&condition, (&a, &b))) in out.iter_mut().zip(operands) {
            *out = if condition != 0 { a } else { b };
        }
    })
}

/// Through contiguous copies of the operands.
fn select_copies(
    device: &Device,
    operands: [(&'static str, Operand<'_>); 3],
    layouts: &[Layout; 3],
    out: &Buffer,
) -> Result<()> {
    let mut copies = Vec::with_capacity(3);
    for ((_, operand), layout) in operands.into_iter().zip(layouts) {
        let copy = device.alloc_typed(operand.buffer.dtype(), layout.n_elements())?;
        let expanded = Operand { layout, ..operand };
        copy_strided(device, expanded, &copy)?;
        copies.push(copy);
    }
    let dense = Layout::contiguous(&[out.len()])?;
    let of = |k: usize| Operand::new(&copies[k], &dense);
    select(device, of(0), of(1), of(2), out)
}

/// Writes `value` where `mask` holds, else `x`, over their joint shape. PyTorch:
/// `x.masked_fill(mask, value)`.
///
/// The value becomes an element of x's type: rounded to nearest even as a float, truncated and
/// saturated as an integer.
///
/// # Errors
/// As [`select`], and [`KernelError::Argument`](crate::KernelError::Argument) for an output of another type
/// than `x`.
pub fn masked_fill(
    device: &Device,
    x: Operand<'_>,
    mask: Operand<'_>,
    value: f64,
    out: &Buffer,
) -> Result<()> {
    const NAME: &str = "masked_fill";
    check_mask(NAME, "mask", mask)?;
    let (dtype, found) = (x.buffer.dtype(), out.dtype());
    check_that!(NAME, found == dtype => "out is {found}, expected {dtype} as x")?;
    let bits = bits_of(dtype, value);
    let kernel = Elements {
        name: NAME,
        shader: &masked_fill::SHADER,
        compute: DType::U32,
        parameters: [bits, 0],
        operands: [("x", x), ("mask", mask)],
        forms: [Form::raw(dtype), Form::Of(DType::Bool)],
        out_form: Form::raw(dtype),
    };
    kernel.launch(device, out, move |[x, mask], out| {
        for (out, (&x, &mask)) in out.iter_mut().zip(x.iter().zip(mask)) {
            *out = if mask != 0 { bits } else { x };
        }
    })
}

fn check_mask(name: &'static str, argument: &str, mask: Operand<'_>) -> Result<()> {
    let dtype = mask.buffer.dtype();
    check_that!(name, dtype == DType::Bool => "{argument} is {dtype}, expected bool")
}

#[cfg(test)]
mod tests;
