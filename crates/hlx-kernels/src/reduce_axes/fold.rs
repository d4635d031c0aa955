//! What a pass of a reduction does with its terms, and what it stores.

use hlx_core::DType;

use crate::element::{self, NAN_KEY};
use crate::join::Join;
use crate::lanes::LANES;

/// What is joined of a term; the number is the constant of `words.comp`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Term {
    Word = 0,
    Square = 1,
    Key = 2,
    /// 1 if it is not zero.
    NotZero = 3,
    /// 1 if it is zero.
    Zero = 4,
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
    pub join: Join,
    pub term: Term,
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
            term: Term::Word,
            dtype: element::compute_type(self.dtype),
            ..self
        }
    }

    /// Lanes whose order shows in the result.
    pub fn lanes(self) -> usize {
        match self.join {
            Join::AddFloat | Join::MulFloat => LANES,
            _ => 1,
        }
    }

    /// The constants 8 to 11 of `words.comp`.
    pub fn specialization(self) -> [(u32, u32); 4] {
        let result = if self.done { self.outcome as u32 } else { 0 };
        let (join, term) = (self.join as u32, self.term as u32);
        constants!(8: join, term, result, self.flip)
    }

    /// The bits that a term's word is turned by to be a key, where it is no float.
    pub fn mask(self) -> u32 {
        element::order_key(element::compute_type(self.dtype), 0) ^ self.flip
    }

    /// The bits that a zero has clear.
    pub fn magnitude(self) -> u32 {
        match self.dtype.is_float() {
            true => 0x7fff_ffff,
            false => u32::MAX,
        }
    }

    /// The value that is stored for a piece.
    pub fn stored(self, total: u32) -> u32 {
        let total = self.join.stored(total);
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
