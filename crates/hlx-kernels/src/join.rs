//! How reductions and scans join words.

use hlx_core::{DType, arith};

/// How two words become one; the number is the shaders' constant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Join {
    AddFloat = 0,
    MulFloat = 1,
    Add = 2,
    Mul = 3,
    Max = 4,
}

impl Join {
    /// The sum of values of a type.
    pub fn sum(dtype: DType) -> Self {
        match dtype.is_float() {
            true => Self::AddFloat,
            false => Self::Add,
        }
    }

    /// The product of values of a type.
    pub fn product(dtype: DType) -> Self {
        match dtype.is_float() {
            true => Self::MulFloat,
            false => Self::Mul,
        }
    }

    /// The word that changes nothing.
    pub fn nothing(self) -> u32 {
        match self {
            Self::MulFloat => 1.0_f32.to_bits(),
            Self::Mul => 1,
            _ => 0,
        }
    }

    /// What is stored of a total: a float sum of zero is +0.
    #[inline(always)]
    pub fn stored(self, total: u32) -> u32 {
        match self {
            Self::AddFloat => arith::pos0(f32::from_bits(total)).to_bits(),
            _ => total,
        }
    }
}
