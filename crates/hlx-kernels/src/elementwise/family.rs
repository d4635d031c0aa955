//! What the unary and the binary operations share: their enums, checks of the types, words as values of a
//! compute type, and the loops of the CPU twins.

use hlx_core::{Buffer, DType, Shader};

use super::frame::Elements;
use crate::convert::Form;
use crate::error::Result;
use crate::layout::Operand;

/// A value of a compute type, or a truth value, as a word.
pub(super) trait Word: Copy {
    /// The value's word.
    fn word(self) -> u32;
}

/// A value of a compute type.
pub(super) trait Value: Word {
    /// The value of a word.
    fn of_word(word: u32) -> Self;
}

macro_rules! words {
    ($($type:ty: $value:ident => $to:expr, $word:ident => $from:expr;)+) => {$(
        impl Word for $type {
            #[inline(always)]
            fn word(self) -> u32 {
                let $value = self;
                $to
            }
        }

        impl Value for $type {
            #[inline(always)]
            fn of_word($word: u32) -> Self {
                $from
            }
        }
    )+};
}
words! {
    f32: value => value.to_bits(), word => f32::from_bits(word);
    i32: value => value as u32, word => word as i32;
    u32: value => value, word => word;
}

impl Word for bool {
    #[inline(always)]
    fn word(self) -> u32 {
        u32::from(self)
    }
}

/// `y[i] = f(x[i])` or `y[i] = f(a[i], b[i])` over words, for the bodies of `multiversion!` functions; with
/// `with p`, `f(x[i], p)`. A macro, because the formula is called in the body itself so: by way of a closure
/// or a function's name as a value, a long one is compiled apart, for the baseline.
macro_rules! each {
    ($y:ident, [$x:ident] $f:expr $(, $parameters:ident with)?) => {
        for (y, x) in $y.iter_mut().zip($x) {
            *y = $f(Value::of_word(*x) $(, $parameters)?).word();
        }
    };
    ($y:ident, [$a:ident, $b:ident] $f:expr) => {
        for ((y, a), b) in $y.iter_mut().zip($a).zip($b) {
            *y = $f(Value::of_word(*a), Value::of_word(*b)).word();
        }
    };
}
pub(super) use each;

/// Defines formulas that are one expression, as functions; those of f32 name their `FloatOps`.
macro_rules! formulas {
    ($($name:ident $(<$ops:ident>)? ($($x:ident),+: $ty:ty) -> $result:ty { $value:expr })+) => {$(
        #[inline(always)]
        pub(super) fn $name$(<$ops: hlx_core::arith::FloatOps>)?($($x: $ty),+) -> $result {
            $value
        }
    )+};
}
pub(super) use formulas;

/// Defines the enum of a family of operations from its lines, and their loops over words of each compute type.
macro_rules! define_family {
    ($(#[$of_enum:meta])* $kind:ident($($operand:ident),+) $operands:tt
     $($(#[$documentation:meta])* $name:ident $variant:ident $is_bool:literal
       [$($f32:ident $($f32_with:ident)?)?] [$($i32:ident $($i32_with:ident)?)?]
       [$($u32:ident $($u32_with:ident)?)?];)+) => {
        $(#[$of_enum])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum $kind {
            $($(#[$documentation])* $variant,)+
        }

        impl $kind {
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

            fn shader(self) -> &'static hlx_core::Shader {
                match self {
                    $(Self::$variant => &kinds::$name::SHADER,)+
                }
            }

            fn typed(self, compute: DType) -> Typed {
                Typed {
                    name: self.name(),
                    shader: self.shader(),
                    compute,
                    is_defined: self.is_defined(compute),
                    is_bool: self.is_bool(),
                }
            }

            /// Computes words of the compute type.
            fn chunk(
                self,
                compute: DType,
                parameters: [u32; 2],
                $($operand: &[u32],)+
                y: &mut [u32],
            ) {
                match compute {
                    DType::F32 => chunk_f32(self, parameters.map(f32::from_bits), $($operand,)+ y),
                    DType::I32 => chunk_i32(self, parameters.map(|p| p as i32), $($operand,)+ y),
                    _ => chunk_u32(self, parameters, $($operand,)+ y),
                }
            }
        }

        impl std::fmt::Display for $kind {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(self.name())
            }
        }

        multiversion! {
            fn chunk_f32<A>(kind: $kind, parameters: [f32; 2], $($operand: &[u32],)+ y: &mut [u32]) {
                let _ = parameters;
                match kind {
                    $($kind::$variant => {
                        $(each!(y, $operands formulas::$f32::<A> $(, parameters $f32_with)?);)?
                    })+
                }
            }
        }

        multiversion! {
            fn chunk_i32(kind: $kind, parameters: [i32; 2], $($operand: &[u32],)+ y: &mut [u32]) {
                let _ = parameters;
                match kind {
                    $($kind::$variant => {
                        $(each!(y, $operands formulas::$i32 $(, parameters $i32_with)?);)?
                    })+
                }
            }
        }

        multiversion! {
            fn chunk_u32(kind: $kind, parameters: [u32; 2], $($operand: &[u32],)+ y: &mut [u32]) {
                let _ = parameters;
                match kind {
                    $($kind::$variant => {
                        $(each!(y, $operands formulas::$u32 $(, parameters $u32_with)?);)?
                    })+
                }
            }
        }
    };
}
pub(super) use define_family;

/// An operation with the types that it takes and gives.
pub(super) struct Typed {
    pub name: &'static str,
    pub shader: &'static Shader,
    pub compute: DType,
    /// Whether the operation has a formula for the compute type.
    pub is_defined: bool,
    /// Whether the result is a truth value.
    pub is_bool: bool,
}

impl Typed {
    /// Checks the types of the operands and the output; returns the kernel.
    ///
    /// # Errors
    /// [`KernelError::Argument`](crate::KernelError::Argument) for a compute type that the operation is not
    /// defined for, a float operand of integer arithmetic, and an output of another kind than the result.
    pub fn kernel<'a, const N: usize>(
        &self,
        operands: [(&'static str, Operand<'a>); N],
        parameters: [u32; 2],
        out: &Buffer,
    ) -> Result<Elements<'a, N>> {
        let compute = self.compute;
        check_that!(self.name, self.is_defined =>
            "compute type is {compute}, for which the operation is not defined")?;
        let in_floats = compute == DType::F32;
        for (argument, operand) in operands {
            let dtype = operand.buffer.dtype();
            check_that!(self.name, in_floats || !dtype.is_float() =>
                "{argument} is {dtype}, expected an integer type or bool under {compute}")?;
        }
        let dtype = out.dtype();
        let (fits, expected) = match (self.is_bool, in_floats) {
            (true, _) => (dtype == DType::Bool, "bool"),
            (false, true) => (dtype.is_float(), "a float type"),
            (false, false) => (!dtype.is_float(), "an integer type or bool"),
        };
        check_that!(self.name, fits => "out is {dtype}, expected {expected}")?;
        Ok(Elements {
            name: self.name,
            shader: self.shader,
            compute,
            parameters,
            operands,
            forms: operands.map(|(_, operand)| Form::Of(operand.buffer.dtype())),
            out_form: Form::Of(dtype),
        })
    }
}
