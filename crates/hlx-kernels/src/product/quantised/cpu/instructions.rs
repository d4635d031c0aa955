//! What computes the sums of a product on the CPU: how operands are packed, and how a tile of them is multiplied.
//!
//! In each way a sum has two parts, `256 high + low`, which are exact in 32 bits however long the piece.

use std::fmt;

use hlx_core::cpu::SimdLevel;

use crate::product::transposed::transpose_columns;

/// Rows and columns of a tile at most.
pub(super) const MAX_TILE: [usize; 2] = [16, 32];

/// The instructions that compute sums.
#[derive(Clone, Copy, Debug)]
pub(in super::super) struct Instructions {
    /// What they multiply, and their name.
    pub names: [&'static str; 2],
    /// The other instructions that the processor has with these.
    pub level: SimdLevel,
    /// Rows and columns of a tile.
    pub tile: [usize; 2],
    /// Terms of a block at most: the sums of a tile are read and written once a block.
    pub block: usize,
    /// Terms of B in a word of their panel; a strip of A has two.
    pub terms_of_word: usize,
    /// Called before the first tile of a task and behind the last.
    pub registers: [fn(); 2],
    pub pack_row: PackRow,
    /// Writes the digits of rows of B, each a column of the tile, to their panel.
    pub pack_columns: fn(SimdLevel, columns: &[&[i8]], panel: &mut [i32]),
    /// Adds a block's products to the sums of a tile, \[2, rows, columns\], or begins them. The processor has the
    /// instructions, and the lengths are those of a tile.
    pub multiply: unsafe fn(SimdLevel, &Packed<'_>, sums: &mut [i32]),
}

/// Writes the digits of a row of A to its strip, and returns what its sums become too large by.
type PackRow = fn(row: usize, digits: [&[i8]; 2], strip: &mut [i32]) -> [i32; 2];

/// A block of digits in the order in which a tile reads it, both operands.
pub(in super::super) struct Packed<'a> {
    pub left: &'a [i32],
    pub right: &'a [i32],
    /// Terms, a multiple of 64 above zero.
    pub k: usize,
    /// The sums begin with this block.
    pub begins: bool,
}

impl Instructions {
    /// Words of a strip and of a panel of `k` terms.
    pub fn packed(&self, k: usize) -> [usize; 2] {
        let [height, width] = self.tile;
        [height * k / 2, width * k / self.terms_of_word]
    }

    /// Multiplies a block of a tile.
    pub fn multiply(&self, packed: &Packed<'_>, sums: &mut [i32]) {
        let ([rows, columns], [strip, panel]) = (self.tile, self.packed(packed.k));
        assert!(sums.len() >= 2 * rows * columns);
        assert!(packed.k > 0 && packed.k.is_multiple_of(64));
        assert!(packed.left.len() >= strip && packed.right.len() >= panel);
        // SAFETY: only instructions that the processor has are listed; the lengths are those asserted.
        unsafe { (self.multiply)(self.level, packed, sums) }
    }
}

impl fmt::Display for Instructions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.names.join(", "))
    }
}

/// Packs digits of columns as words of four, of which each flips the same bits; [`transpose_columns`] has `places`, and sixteen
/// columns begin `matrix` words behind the last ones.
#[cfg_attr(not(target_arch = "x86_64"), expect(dead_code))]
pub(super) fn pack_digits(
    level: SimdLevel,
    columns: &[&[i8]],
    flipped: i32,
    places: [usize; 2],
    matrix: usize,
    panel: &mut [i32],
) {
    for (i, columns) in columns.chunks(16).enumerate() {
        // A column that there is not repeats the first.
        let of_chunk = |column: usize| *columns.get(column).unwrap_or(&columns[0]);
        let columns = std::array::from_fn(of_chunk);
        transpose_columns(level, columns, flipped, places, &mut panel[i * matrix..]);
    }
}
