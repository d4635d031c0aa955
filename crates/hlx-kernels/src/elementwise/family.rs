//! What the unary and the binary operations share: checks of the types, words as values of a compute
//! type, and the loops of the CPU twins.

use hlx_core::{Buffer, DType};

use crate::error::{KernelError, check_that};
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

/// `y[i] = f(x[i])` over words, for the bodies of `multiversion!` functions; with `with p`,
/// `f(x[i], p)`. A macro, because the formula is called in the body itself so: by way of a closure or a
/// function's name as a value, a long one is compiled apart, for the baseline.
macro_rules! each1 {
    ($x:expr, $y:expr, $f:expr $(, with $parameters:expr)?) => {
        for (y, x) in $y.iter_mut().zip($x) {
            let value = $crate::elementwise::family::Value::of_word(*x);
            *y = $crate::elementwise::family::Word::word($f(value $(, $parameters)?));
        }
    };
}
pub(super) use each1;

/// `y[i] = f(a[i], b[i])` over words, likewise.
macro_rules! each2 {
    ($a:expr, $b:expr, $y:expr, $f:expr) => {
        for ((y, a), b) in $y.iter_mut().zip($a).zip($b) {
            let left = $crate::elementwise::family::Value::of_word(*a);
            let right = $crate::elementwise::family::Value::of_word(*b);
            *y = $crate::elementwise::family::Word::word($f(left, right));
        }
    };
}
pub(super) use each2;

/// An operation with the types that it takes and gives.
pub(super) struct Typed {
    pub name: &'static str,
    pub compute: DType,
    /// Whether the operation has a formula for the compute type.
    pub is_defined: bool,
    /// Whether the result is a truth value.
    pub is_bool: bool,
}

impl Typed {
    /// Checks the types of the operands and the output.
    ///
    /// # Errors
    /// [`KernelError::Argument`] for a compute type that the operation is not defined for, a float
    /// operand of integer arithmetic, and an output of another kind than the result.
    pub fn check(
        &self,
        operands: &[(&'static str, Operand<'_>)],
        out: &Buffer,
    ) -> Result<(), KernelError> {
        let compute = self.compute;
        check_that(self.name, self.is_defined, || {
            format!("compute type is {compute}, for which the operation is not defined")
        })?;
        let in_floats = compute == DType::F32;
        for (argument, operand) in operands {
            let dtype = operand.buffer.dtype();
            check_that(self.name, in_floats || !dtype.is_float(), || {
                format!("{argument} is {dtype}, expected an integer type or bool under {compute}")
            })?;
        }
        let dtype = out.dtype();
        let (fits, expected) = match (self.is_bool, in_floats) {
            (true, _) => (dtype == DType::Bool, "bool"),
            (false, true) => (dtype.is_float(), "a float type"),
            (false, false) => (!dtype.is_float(), "an integer type or bool"),
        };
        check_that(self.name, fits, || {
            format!("out is {dtype}, expected {expected}")
        })
    }
}
