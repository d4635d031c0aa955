//! What computes the sums of a product on the CPU.

use std::fmt;

use hlx_core::cpu::SimdLevel;

#[cfg(target_arch = "x86_64")]
use super::digits::Digits;
use super::tile::{COLUMNS, ROWS};

/// The instructions that compute sums.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in super::super) enum Instructions {
    /// Products of 16-bit integers.
    Pairs(SimdLevel),
    /// Of digits of 8 bits.
    #[cfg(target_arch = "x86_64")]
    Digits(Digits),
}

impl Instructions {
    /// What this processor has at the level, the slowest first.
    pub fn of(level: SimdLevel) -> Vec<Self> {
        let pairs = [Self::Pairs(level)].into_iter();
        #[cfg(target_arch = "x86_64")]
        let pairs = pairs.chain(Digits::of(level).into_iter().map(Self::Digits));
        pairs.collect()
    }

    /// Rows and columns of a tile.
    pub fn tile(self) -> [usize; 2] {
        match self {
            Self::Pairs(_) => [ROWS, COLUMNS],
            #[cfg(target_arch = "x86_64")]
            Self::Digits(digits) => digits.tile(),
        }
    }
}

impl fmt::Display for Instructions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Pairs(level) => write!(f, "products of 16-bit integers, {}", level.name()),
            #[cfg(target_arch = "x86_64")]
            Self::Digits(digits) => write!(f, "products of bytes, {digits}"),
        }
    }
}
