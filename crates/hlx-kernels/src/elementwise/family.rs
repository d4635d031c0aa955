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

/// `y[i] = f(x[i])` over words.
#[inline(always)]
pub(super) fn each1<T: Value, R: Word>(x: &[u32], y: &mut [u32], f: impl Fn(T) -> R) {
    for (y, x) in y.iter_mut().zip(x) {
        *y = f(T::of_word(*x)).word();
    }
}

/// `y[i] = f(a[i], b[i])` over words.
#[inline(always)]
pub(super) fn each2<T: Value, R: Word>(a: &[u32], b: &[u32], y: &mut [u32], f: impl Fn(T, T) -> R) {
    for ((y, a), b) in y.iter_mut().zip(a).zip(b) {
        *y = f(T::of_word(*a), T::of_word(*b)).word();
    }
}

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
