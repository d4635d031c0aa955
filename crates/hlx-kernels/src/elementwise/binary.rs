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

use std::fmt;

use hlx_core::{Buffer, DType, Device, Shader};

use super::family::{Typed, each2};
use super::frame::Elements;
use crate::convert::Form;
use crate::error::KernelError;
use crate::layout::Operand;

macro_rules! define_kinds {
    ($($(#[$documentation:meta])* $name:ident $variant:ident $shader:ident $is_bool:literal
       [$($f32:ident)?] [$($i32:ident)?] [$($u32:ident)?];)+) => {
        /// A function of two elements.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum Binary {
            $($(#[$documentation])* $variant,)+
        }

        impl Binary {
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
            fn chunk_f32<A>(operation: Binary, a: &[u32], b: &[u32], y: &mut [u32]) {
                match operation {
                    $(Binary::$variant => { $(each2!(a, b, y, formulas::$f32::<A>);)? })+
                }
            }
        }

        multiversion! {
            fn chunk_i32(operation: Binary, a: &[u32], b: &[u32], y: &mut [u32]) {
                match operation {
                    $(Binary::$variant => { $(each2!(a, b, y, formulas::$i32);)? })+
                }
            }
        }

        multiversion! {
            fn chunk_u32(operation: Binary, a: &[u32], b: &[u32], y: &mut [u32]) {
                match operation {
                    $(Binary::$variant => { $(each2!(a, b, y, formulas::$u32);)? })+
                }
            }
        }
    };
}
crate::for_each_binary!(define_kinds);

impl fmt::Display for Binary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Computes `out[i] = f(a[i], b[i])` over the elements of the joint shape of both operands in
/// row-major order, in the type `compute`: f32, i32 or u32.
///
/// # Errors
/// [`KernelError::Argument`] for shapes that do not broadcast, a compute type without a formula, a
/// float operand of integer arithmetic, an output of another kind than the result (`bool` for a
/// truth value, else a float or an integer as the compute type is), and operands larger than the
/// device binds; [`KernelError::Length`] for an output of another length; the device's error.
pub fn binary(
    device: &Device,
    operation: Binary,
    compute: DType,
    a: Operand<'_>,
    b: Operand<'_>,
    out: &Buffer,
) -> Result<(), KernelError> {
    let operands = [("a", a), ("b", b)];
    let typed = Typed {
        name: operation.name(),
        compute,
        is_defined: operation.is_defined(compute),
        is_bool: operation.is_bool(),
    };
    typed.check(&operands, out)?;
    let kernel = Elements {
        name: operation.name(),
        shader: operation.shader(),
        compute,
        parameters: [0; 2],
        operands,
        forms: operands.map(|(_, operand)| Form::Of(operand.buffer.dtype())),
        out_form: Form::Of(out.dtype()),
    };
    kernel.launch(device, out, move |[a, b], y| match compute {
        DType::F32 => chunk_f32(operation, a, b, y),
        DType::I32 => chunk_i32(operation, a, b, y),
        _ => chunk_u32(operation, a, b, y),
    })
}
