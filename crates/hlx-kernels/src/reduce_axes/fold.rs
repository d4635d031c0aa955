//! What a pass of a reduction does with its terms, and what it stores.

use hlx_core::{DType, arith};

use crate::element::{self, NAN_KEY};
use crate::lanes::LANES;

/// What a pass does with a term.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    SumFloat,
    SquaresFloat,
    ProdFloat,
    Sum,
    Squares,
    Prod,
    /// The largest word.
    Max,
    /// The largest key.
    MaxKey,
    /// 1 if a term is not zero.
    NotZero,
    /// 1 if a term is zero.
    Zero,
}

impl Step {
    /// What the pass behind this one does with its totals.
    pub fn of_totals(self) -> Self {
        match self {
            Self::SquaresFloat => Self::SumFloat,
            Self::Squares => Self::Sum,
            Self::MaxKey | Self::NotZero | Self::Zero => Self::Max,
            other => other,
        }
    }

    /// Lanes whose order shows in the result.
    pub fn lanes(self) -> usize {
        match self {
            Self::SumFloat | Self::SquaresFloat | Self::ProdFloat => LANES,
            _ => 1,
        }
    }

    pub fn nothing(self) -> u32 {
        match self {
            Self::ProdFloat => 1.0_f32.to_bits(),
            Self::Prod => 1,
            _ => 0,
        }
    }
}

/// What a reduction's result is of the value that all terms are joined to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    Value = 0,
    /// The word of a key.
    OfKey = 1,
    /// 1 for 0, and 0 for 1.
    Not = 2,
}

/// A pass over words.
#[derive(Clone, Copy, Debug)]
pub(super) struct Fold {
    pub step: Step,
    /// Of the words that the pass loads.
    pub dtype: DType,
    /// All bits for a minimum.
    pub flip: u32,
    pub outcome: Outcome,
    /// The pass makes results, not totals.
    pub done: bool,
}

impl Fold {
    /// The pass behind this one.
    pub fn of_totals(self) -> Self {
        Self {
            step: self.step.of_totals(),
            dtype: element::compute_type(self.dtype),
            ..self
        }
    }

    /// The constants 8 to 11 of `words.comp`.
    pub fn specialization(self) -> [(u32, u32); 4] {
        let (join, term) = match self.step {
            Step::SumFloat => (0, 0),
            Step::SquaresFloat => (0, 1),
            Step::ProdFloat => (1, 0),
            Step::Sum => (2, 0),
            Step::Squares => (2, 1),
            Step::Prod => (3, 0),
            Step::Max => (4, 0),
            Step::MaxKey => (4, 2),
            Step::NotZero => (4, 3),
            Step::Zero => (4, 4),
        };
        let result = if self.done { self.outcome as u32 } else { 0 };
        [(8, join), (9, term), (10, result), (11, self.flip)]
    }

    /// The bits that a term's word is turned by to be a key, where it is no float.
    pub fn mask(self) -> u32 {
        element::order_key(element::compute_type(self.dtype), 0) ^ self.flip
    }

    /// The bits that a zero has clear.
    pub fn magnitude(self) -> u32 {
        if self.dtype.is_float() {
            0x7fff_ffff
        } else {
            u32::MAX
        }
    }

    /// The value that is stored for a piece.
    pub fn stored(self, total: u32) -> u32 {
        let total = match self.step {
            Step::SumFloat | Step::SquaresFloat => arith::pos0(f32::from_bits(total)).to_bits(),
            _ => total,
        };
        match self.outcome {
            Outcome::OfKey if self.done => {
                let nan = self.dtype.is_float() && total == NAN_KEY;
                let key = if nan { total } else { total ^ self.flip };
                element::from_order_key(self.dtype, key)
            }
            Outcome::Not if self.done => total ^ 1,
            _ => total,
        }
    }
}
