//! Unary operations over a typed, strided operand: `y[i] = f(x[i])`.
//!
//! The kinds are lines of `shaders/include/unary.txt`, which makes their shaders and this module's
//! enum; their formulas are in `formulas.rs`, written a second time in `shaders/include/unary`.
//! Each element is one chain of operations of HLX arithmetic. Operands are converted to the compute
//! type, f32, i32 or u32, when they are loaded, and results to the output's type when they are
//! stored. What is not said by a formula's name:
//!
//! - `neg` and `abs` change the sign bit alone, of zeros and NaN too. Integers wrap: `abs` of the
//!   least is itself.
//! - `sign` of NaN is +0, as in PyTorch. `floor`, `ceil`, `round` (ties to even) and `trunc` keep the
//!   sign of what becomes a zero. `relu` gives +0 up to and including -0.
//! - `clamp` gives the upper bound where the bounds cross, and NaN if a bound is NaN; a zero within
//!   the bounds keeps its sign.
//! - Every function of NaN is NaN. At the ends, docs/numerics.md has the rules of `exp` and its kin;
//!   `gelu`, `silu`, `mish` and `hardswish` of minus infinity are NaN, as in PyTorch.
//! - The activations are those of [`activation`](crate::activation), to the bit;
//!   `mish(x) = x tanh(softplus(x))`; `elu(x) = alpha expm1(x)` and `leaky_relu(x) = slope x` from zero
//!   down and of NaN.

mod formulas;
mod kinds;
#[cfg(test)]
mod tests;

use hlx_core::{Buffer, DType, Device, Element, arith};

use super::family::{Typed, Value, Word, define_family, each};
use crate::error::Result;
use crate::layout::Operand;

/// Two parameters of an operation, as words of the compute type: the slope of `LeakyReLU` and the
/// alpha of `ELU`, each with a zero behind; the bounds of `Clamp`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Parameters([u32; 2]);

impl From<[f32; 2]> for Parameters {
    fn from(values: [f32; 2]) -> Self {
        Self(values.map(|value| value.stored().to_bits()))
    }
}

impl From<[i32; 2]> for Parameters {
    fn from(values: [i32; 2]) -> Self {
        Self(values.map(|value| value as u32))
    }
}

impl From<[u32; 2]> for Parameters {
    fn from(values: [u32; 2]) -> Self {
        Self(values)
    }
}

crate::for_each_unary!(define_family
    /// A function of one element.
    Unary(x) [x]
);

multiversion! {
    /// The sines, cosines or tangents of a piece without angles beyond 2^17: the bits of
    /// `chunk_f32`, in vectors.
    fn chunk_within<A>(operation: Unary, x: &[u32], y: &mut [u32]) {
        match operation {
            Unary::Sin => each!(y, [x] A::sin_within),
            Unary::Cos => each!(y, [x] A::cos_within),
            _ => each!(y, [x] A::tan_within),
        }
    }
}

/// Computes `out[i] = f(x[i])` for the elements of `x` in row-major order, in the type `compute`:
/// f32, i32 or u32. `BitwiseNot` into `bool` is `LogicalNot`.
///
/// # Errors
/// [`KernelError::Argument`](crate::KernelError::Argument) for a compute type without a formula, a float
/// operand of integer arithmetic, an output of another kind than the result (`bool` for a truth value, else a
/// float or an integer as the compute type is), and operands larger than the device binds;
/// [`KernelError::Length`](crate::KernelError::Length) for an output of another length; the device's error.
pub fn unary(
    device: &Device,
    operation: Unary,
    compute: DType,
    x: Operand<'_>,
    parameters: impl Into<Parameters>,
    out: &Buffer,
) -> Result<()> {
    let operation = match (operation, out.dtype()) {
        (Unary::BitwiseNot, DType::Bool) => Unary::LogicalNot,
        _ => operation,
    };
    let Parameters(words) = parameters.into();
    let kernel = operation.typed(compute).kernel([("x", x)], words, out)?;
    let of_angles = matches!(operation, Unary::Sin | Unary::Cos | Unary::Tan);
    kernel.launch(device, out, move |[x], y| {
        if of_angles && arith::angles_are_within(bytemuck::cast_slice(x)) {
            chunk_within(operation, x, y);
        } else {
            operation.chunk(compute, words, x, y);
        }
    })
}
