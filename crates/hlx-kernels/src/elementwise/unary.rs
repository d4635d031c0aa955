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

use std::fmt;

use hlx_core::{Buffer, DType, Device, Element, Shader, arith};

use super::family::{Typed, each1};
use super::frame::Elements;
use crate::convert::Form;
use crate::error::KernelError;
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

/// Runs a formula over words, with the parameters where it takes them.
macro_rules! over {
    ($x:ident, $y:ident, $parameters:ident, $formula:expr) => {
        each1!($x, $y, $formula)
    };
    ($x:ident, $y:ident, $parameters:ident, $formula:expr, with) => {
        each1!($x, $y, $formula, with $parameters)
    };
}

macro_rules! define_kinds {
    ($($(#[$documentation:meta])* $name:ident $variant:ident $shader:ident $is_bool:literal
       [$($f32:ident $($f32_with:ident)?)?] [$($i32:ident $($i32_with:ident)?)?]
       [$($u32:ident $($u32_with:ident)?)?];)+) => {
        /// A function of one element.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum Unary {
            $($(#[$documentation])* $variant,)+
        }

        impl Unary {
            /// Every operation.
            pub const ALL: &'static [Self] = &[$(Self::$variant),+];

            /// PyTorch's name.
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$variant => stringify!($name),)+
                }
            }

            /// Whether the result is a truth value, stored as `bool`.
            pub const fn is_bool(self) -> bool {
                match self {
                    $(Self::$variant => $is_bool,)+
                }
            }

            /// Whether there is a formula for a compute type.
            pub fn is_defined(self, compute: DType) -> bool {
                let formulas: [&[&str]; 3] = match self {
                    $(Self::$variant => [
                        &[$(stringify!($f32))?], &[$(stringify!($i32))?], &[$(stringify!($u32))?],
                    ],)+
                };
                match compute {
                    DType::F32 => !formulas[0].is_empty(),
                    DType::I32 => !formulas[1].is_empty(),
                    DType::U32 => !formulas[2].is_empty(),
                    _ => false,
                }
            }

            fn shader(self) -> &'static Shader {
                match self {
                    $(Self::$variant => &kinds::$shader::SHADER,)+
                }
            }
        }

        multiversion! {
            fn chunk_f32<A>(operation: Unary, parameters: [f32; 2], x: &[u32], y: &mut [u32]) {
                match operation {
                    $(Unary::$variant => {
                        $(over!(x, y, parameters, formulas::$f32::<A> $(, $f32_with)?);)?
                    })+
                }
            }
        }

        multiversion! {
            fn chunk_i32(operation: Unary, parameters: [i32; 2], x: &[u32], y: &mut [u32]) {
                match operation {
                    $(Unary::$variant => {
                        $(over!(x, y, parameters, formulas::$i32 $(, $i32_with)?);)?
                    })+
                }
            }
        }

        multiversion! {
            fn chunk_u32(operation: Unary, parameters: [u32; 2], x: &[u32], y: &mut [u32]) {
                match operation {
                    $(Unary::$variant => {
                        $(over!(x, y, parameters, formulas::$u32 $(, $u32_with)?);)?
                    })+
                }
            }
        }
    };
}
crate::for_each_unary!(define_kinds);

multiversion! {
    /// The sines, cosines or tangents of a piece without angles beyond 2^17: the bits of
    /// `chunk_f32`, in vectors.
    fn chunk_within<A>(operation: Unary, x: &[u32], y: &mut [u32]) {
        match operation {
            Unary::Sin => each1!(x, y, A::sin_within),
            Unary::Cos => each1!(x, y, A::cos_within),
            _ => each1!(x, y, A::tan_within),
        }
    }
}

/// The operation on a piece of floats.
fn piece_f32(operation: Unary, parameters: [f32; 2], x: &[u32], y: &mut [u32]) {
    let of_angles = matches!(operation, Unary::Sin | Unary::Cos | Unary::Tan);
    if of_angles && arith::angles_are_within(bytemuck::cast_slice(x)) {
        chunk_within(operation, x, y);
    } else {
        chunk_f32(operation, parameters, x, y);
    }
}

impl fmt::Display for Unary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Computes `out[i] = f(x[i])` for the elements of `x` in row-major order, in the type `compute`:
/// f32, i32 or u32. `BitwiseNot` into `bool` is `LogicalNot`.
///
/// # Errors
/// [`KernelError::Argument`] for a compute type without a formula, a float operand of integer
/// arithmetic, an output of another kind than the result (`bool` for a truth value, else a float
/// or an integer as the compute type is), and operands larger than the device binds;
/// [`KernelError::Length`] for an output of another length; the device's error.
pub fn unary(
    device: &Device,
    operation: Unary,
    compute: DType,
    x: Operand<'_>,
    parameters: impl Into<Parameters>,
    out: &Buffer,
) -> Result<(), KernelError> {
    let operation = match (operation, out.dtype()) {
        (Unary::BitwiseNot, DType::Bool) => Unary::LogicalNot,
        _ => operation,
    };
    let Parameters(words) = parameters.into();
    let typed = Typed {
        name: operation.name(),
        compute,
        is_defined: operation.is_defined(compute),
        is_bool: operation.is_bool(),
    };
    typed.check(&[("x", x)], out)?;
    let kernel = Elements {
        name: operation.name(),
        shader: operation.shader(),
        compute,
        parameters: words,
        operands: [("x", x)],
        forms: [Form::Of(x.buffer.dtype())],
        out_form: Form::Of(out.dtype()),
    };
    kernel.launch(device, out, move |[x], y| match compute {
        DType::F32 => piece_f32(operation, words.map(f32::from_bits), x, y),
        DType::I32 => chunk_i32(operation, words.map(|word| word as i32), x, y),
        _ => chunk_u32(operation, words, x, y),
    })
}
