//! Binary operations over typed, strided, broadcast operands: `y[i] = f(a[i], b[i])`.
//!
//! The kinds are lines of `shaders/include/binary.txt`, which makes their shaders and this module's
//! enum; their formulas are in `formulas.rs`, written a second time in `shaders/include/binary`.
//! Operands are converted to the compute type, f32, i32 or u32, when they are loaded, and results to
//! the output's type when they are stored. What is not said by a formula's name:
//!
//! - Integers wrap. A quotient, a remainder and a floored quotient by 0 are 0 (PyTorch raises an
//!   error on the CPU and leaves them open on a GPU); the least integer divided by -1 is itself.
//! - `remainder` has the divisor's sign and is exact before one rounding: the remainder toward zero,
//!   plus the divisor if the signs differ. A zero has the sign of `a`. `floor_divide` of floats is
//!   `(a - r) / b` with that remainder toward zero, one less if the signs differ, rounded to the
//!   whole number that it is next to; by zero it is `a / b`. Both follow PyTorch's formulas.
//! - `maximum` and `minimum` are NaN if either operand is, and `b` where they are equal, so the
//!   second zero of two.
//! - Zeros of either sign are equal; NaN is equal to nothing, and true.
//! - A shift by less than 0, or by 32 or more, is one by 32: 0, and -1 of a negative number to the
//!   right. Types of 8 bits are shifted in 32 and wrapped.
//! - `pow` of integers is repeated multiplication; an exponent below 0 gives 1 / a^-b without its
//!   fraction, and 0 of 0.

mod formulas;
mod kinds;
#[cfg(test)]
mod tests;

use hlx_core::{Buffer, DType, Device};

use super::family::{Typed, Value, Word, define_family, each};
use crate::error::Result;
use crate::layout::Operand;

crate::for_each_binary!(define_family
    /// A function of two elements.
    Binary(a, b) [a, b]
);

/// Computes `out[i] = f(a[i], b[i])` over the elements of the joint shape of both operands in
/// row-major order, in the type `compute`: f32, i32 or u32.
///
/// # Errors
/// [`KernelError::Argument`](crate::KernelError::Argument) for shapes that do not broadcast, a compute type
/// without a formula, a float operand of integer arithmetic, an output of another kind than the result (`bool`
/// for a truth value, else a float or an integer as the compute type is), and operands larger than the device
/// binds; [`KernelError::Length`](crate::KernelError::Length) for an output of another length; the device's
/// error.
pub fn binary(
    device: &Device,
    operation: Binary,
    compute: DType,
    a: Operand<'_>,
    b: Operand<'_>,
    out: &Buffer,
) -> Result<()> {
    let kernel = operation
        .typed(compute)
        .kernel([("a", a), ("b", b)], [0; 2], out)?;
    kernel.launch(device, out, move |[a, b], y| {
        operation.chunk(compute, [0; 2], a, b, y);
    })
}
