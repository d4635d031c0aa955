//! What computes the sums of a product on the CPU: products of 16-bit integers, or of either digit of A with that of B, by the
//! dot product of four bytes (VNNI) or AMX's matrices.
//!
//! In each way a sum has two parts, `256 high + low`, which are exact in 32 bits however long the piece.

use std::fmt;

use hlx_core::cpu::SimdLevel;

use super::pairs;
#[cfg(target_arch = "x86_64")]
use super::{amx, vnni};
#[cfg(target_arch = "x86_64")]
use crate::product::transposed::transpose_columns;

/// Rows and columns of a tile at most.
pub(super) const MAX_TILE: [usize; 2] = [16, 32];

/// The instructions that compute sums.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in super::super) enum Instructions {
    /// Products of 16-bit integers.
    Pairs(SimdLevel),
    /// Of digits of 8 bits, vectors of eight sums.
    #[cfg(target_arch = "x86_64")]
    AvxVnni,
    /// Of sixteen.
    #[cfg(target_arch = "x86_64")]
    Avx512Vnni,
    /// Matrices of 16 x 16 sums.
    #[cfg(target_arch = "x86_64")]
    Amx,
}

/// A block of digits in the order in which a tile reads it, both operands.
pub(super) struct Packed<'a> {
    pub left: &'a [i32],
    pub right: &'a [i32],
    /// Terms, a multiple of 64 above zero.
    pub k: usize,
    /// The sums begin with this block.
    pub begins: bool,
}

impl Instructions {
    /// What this processor has at the level, the slowest first.
    pub fn of(level: SimdLevel) -> Vec<Self> {
        let mut all = vec![Self::Pairs(level)];
        #[cfg(target_arch = "x86_64")]
        {
            let wide = level == SimdLevel::Avx512;
            let has = [
                (
                    Self::AvxVnni,
                    (wide || level == SimdLevel::Avx2) && is_x86_feature_detected!("avxvnni"),
                ),
                (
                    Self::Avx512Vnni,
                    wide && is_x86_feature_detected!("avx512vnni"),
                ),
                (Self::Amx, wide && amx::is_granted()),
            ];
            all.extend(has.into_iter().filter(|(_, has)| *has).map(|(own, _)| own));
        }
        all
    }

    /// The other instructions that the processor has with these.
    pub const fn level(self) -> SimdLevel {
        match self {
            Self::Pairs(level) => level,
            #[cfg(target_arch = "x86_64")]
            Self::AvxVnni => SimdLevel::Avx2,
            #[cfg(target_arch = "x86_64")]
            Self::Avx512Vnni | Self::Amx => SimdLevel::Avx512,
        }
    }

    /// Rows and columns of a tile.
    pub const fn tile(self) -> [usize; 2] {
        match self {
            Self::Pairs(_) => [pairs::ROWS, pairs::COLUMNS],
            #[cfg(target_arch = "x86_64")]
            Self::AvxVnni => [3, 16],
            #[cfg(target_arch = "x86_64")]
            Self::Avx512Vnni => [6, 32],
            #[cfg(target_arch = "x86_64")]
            Self::Amx => MAX_TILE,
        }
    }

    /// Terms of a block at most. A panel of 32 columns of digits is 64 KiB then, and the sums of a tile are read and written once
    /// a block.
    pub const fn block(self) -> usize {
        match self {
            Self::Pairs(_) => pairs::CARRY,
            #[cfg(target_arch = "x86_64")]
            _ => 2048,
        }
    }

    /// Words of a strip and of a panel of so many terms.
    pub const fn packed(self, k: usize) -> [usize; 2] {
        let [height, width] = self.tile();
        let panel = match self {
            Self::Pairs(_) => width * k / 2,
            #[cfg(target_arch = "x86_64")]
            _ => width * k / 4,
        };
        [height * k / 2, panel]
    }

    /// This thread's matrix registers, until the result is dropped.
    #[cfg(target_arch = "x86_64")]
    pub(super) fn registers(self) -> Option<amx::Configured> {
        (self == Self::Amx).then(amx::Configured::new)
    }

    /// There are none.
    #[cfg(not(target_arch = "x86_64"))]
    pub(super) fn registers(self) {}

    /// The digits of a row of A in its strip, and what its sums become too large by.
    pub fn pack_row(self, row: usize, digits: [&[i8]; 2], strip: &mut [i32]) -> [i32; 2] {
        match self {
            Self::Pairs(_) => pairs::pack_row(row, digits, strip),
            #[cfg(target_arch = "x86_64")]
            Self::Amx => amx::pack_row(row, digits, strip),
            #[cfg(target_arch = "x86_64")]
            _ => vnni::pack_row(self.tile()[0], row, digits, strip),
        }
    }

    /// The digits of rows of B, each a column of the tile, in their panel.
    pub fn pack_columns(self, columns: &[&[i8]], panel: &mut [i32]) {
        // AVX-VNNI and AVX-512 VNNI: [k / 4, columns]; AMX: [k / 64, 2, 16, 16 columns].
        #[cfg(target_arch = "x86_64")]
        let [_, width] = self.tile();
        #[cfg(target_arch = "x86_64")]
        let (flipped, row, matrix) = match self {
            Self::Amx => (0, 16, 256),
            _ => (vnni::UNSIGNED, width, 16),
        };
        match self {
            Self::Pairs(level) => {
                pairs::pack_columns(level, columns, bytemuck::cast_slice_mut(panel));
            }
            #[cfg(target_arch = "x86_64")]
            _ => {
                for (i, columns) in columns.chunks(16).enumerate() {
                    // A column that there is not repeats the first.
                    let of_chunk = |column: usize| *columns.get(column).unwrap_or(&columns[0]);
                    let columns = std::array::from_fn(of_chunk);
                    let panel = &mut panel[i * matrix..];
                    transpose_columns(self.level(), columns, flipped, [16 * width, row], panel);
                }
            }
        }
    }

    /// Adds a block's products to the sums of a tile, \[2, rows, columns\], or begins them.
    pub(super) fn multiply(self, packed: &Packed<'_>, sums: &mut [i32]) {
        let ([rows, columns], [strip, panel]) = (self.tile(), self.packed(packed.k));
        assert!(sums.len() >= 2 * rows * columns);
        assert!(packed.k > 0 && packed.k.is_multiple_of(64));
        assert!(packed.left.len() >= strip && packed.right.len() >= panel);
        match self {
            Self::Pairs(level) => pairs::multiply(level, packed, sums),
            // SAFETY: the processor has the instructions, and the lengths are those asserted; AMX's registers are configured by
            // whoever calls.
            #[cfg(target_arch = "x86_64")]
            Self::AvxVnni => unsafe { vnni::avx(packed, sums) },
            #[cfg(target_arch = "x86_64")]
            Self::Avx512Vnni => unsafe { vnni::avx512(packed, sums) },
            #[cfg(target_arch = "x86_64")]
            Self::Amx => unsafe { amx::multiply(packed, sums) },
        }
    }
}

impl fmt::Display for Instructions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Pairs(level) => write!(f, "products of 16-bit integers, {}", level.name()),
            #[cfg(target_arch = "x86_64")]
            Self::AvxVnni => f.write_str("products of bytes, AVX-VNNI"),
            #[cfg(target_arch = "x86_64")]
            Self::Avx512Vnni => f.write_str("products of bytes, AVX-512 VNNI"),
            #[cfg(target_arch = "x86_64")]
            Self::Amx => f.write_str("products of bytes, AMX"),
        }
    }
}
