//! Rows of integers in 16 bits: of a tile, a row a lane, and of a block, as they lie in memory.

use bytemuck::{cast_slice, cast_slice_mut};
use hlx_core::arith::{self, FloatOps};
use hlx_core::cpu::simd_level;

use super::pairs::{PairRows, Pairs, Words};
use super::weights::Integers;
use crate::attention::ranged::integer::heads::Rows;
use crate::attention::tile::{Lanes, TILE, map_lanes};
use crate::product::transposed::transpose_columns;

/// Words that turn at a time.
const SIDE: usize = 16;

/// The integers of a tile's rows, one row a lane, and the factors of their exponents.
pub struct Packed {
    pairs: Vec<Words>,
    factors: [Lanes; 2],
}

impl Packed {
    /// Of `n` rows; those past them are zeros.
    pub fn read(rows: &Rows<'_>, row: usize, n: usize) -> Self {
        let mut block = Block::new(rows);
        block.read(rows, row, n);
        let words = block.row_words();
        let mut pairs = vec![[0; TILE]; words];
        let to: &mut [i32] = pairs.as_flattened_mut();
        for (half, rows) in block.rows.chunks_exact(SIDE * words).enumerate() {
            let mut columns: [&[i8]; SIDE] = [&[]; SIDE];
            for (column, row) in columns.iter_mut().zip(rows.chunks_exact(words)) {
                *column = cast_slice(row);
            }
            let [block, row] = [SIDE * TILE, TILE];
            transpose_columns(
                simd_level(),
                columns,
                0,
                [block, row],
                &mut to[SIDE * half..],
            );
        }
        pairs.truncate(rows.width().div_ceil(2));
        let of_rows = &block.factors[..n];
        let factors = [0, 1]
            .map(|half| map_lanes(|lane| of_rows.get(lane).map_or(1.0, |factors| factors[half])));
        Self { pairs, factors }
    }
}

/// The integers of a block's rows, and the factors of their exponents.
pub struct Block {
    /// \[32, words of a row\], a pair of columns each.
    rows: Vec<i32>,
    /// \[16, width\], a pair of rows each.
    pairs: Vec<i32>,
    sums: Vec<Words>,
    pub factors: [[f32; 2]; TILE],
    width: usize,
}

impl Block {
    pub fn new(rows: &Rows<'_>) -> Self {
        Self {
            rows: vec![0; TILE * rows.padded() / 2],
            pairs: vec![0; TILE / 2 * rows.width()],
            sums: vec![[0; TILE]; TILE.max(rows.width())],
            factors: [[1.0; 2]; TILE],
            width: rows.width(),
        }
    }

    fn row_words(&self) -> usize {
        self.rows.len() / TILE
    }

    /// Reads `n` rows, for products with lanes.
    pub fn read(&mut self, rows: &Rows<'_>, row: usize, n: usize) {
        let padded = rows.padded();
        let to: &mut [i16] = &mut cast_slice_mut(&mut self.rows)[..n * padded];
        match rows.digits(row, n) {
            (Some(upper), lower) => join(upper, lower, to),
            (None, lower) => widen(lower, to),
        }
        for (i, factors) in self.factors[..n].iter_mut().enumerate() {
            *factors = rows.factors(row + i);
        }
    }

    /// Makes pairs of the `n` rows read, for sums over them.
    pub fn pair_rows(&mut self, n: usize) {
        let words = self.row_words();
        let rows: &mut [i16] = cast_slice_mut(&mut self.rows);
        if !n.is_multiple_of(2) {
            rows[2 * n * words..][..2 * words].fill(0);
        }
        let both = rows.chunks_exact(4 * words).take(n.div_ceil(2));
        for (both, pairs) in both.zip(self.pairs.chunks_exact_mut(self.width)) {
            let (first, second) = both.split_at(2 * words);
            interleave(first, second, pairs);
        }
    }

    /// `out[r] = product(sum_d of the block's row r with the lanes' rows)`.
    #[inline(always)]
    pub fn products<A: FloatOps>(&mut self, out: &mut [Lanes], lanes: &Packed) {
        let rows = PairRows {
            words: &self.rows,
            row: self.row_words(),
            pair: 1,
        };
        let sums = &mut self.sums[..out.len()];
        Pairs::fastest().sums(&lanes.pairs, rows, sums);
        let [of_first, of_second] = &lanes.factors;
        let rows = out.iter_mut().zip(sums).zip(&self.factors);
        for ((out, sums), [first, second]) in rows {
            *out = map_lanes(|lane| {
                let factors = [
                    A::mul(*first, of_first[lane]),
                    A::mul(*second, of_second[lane]),
                ];
                product::<A>(sums[lane], factors)
            });
        }
    }

    /// `sums = join(sums, product(sum of the block's n rows, each times a lane's integer))`.
    #[inline(always)]
    pub fn weighted<A: FloatOps>(
        &mut self,
        integers: &Integers,
        n: usize,
        sums: &mut [Lanes],
        join: impl Fn(usize, f32, f32) -> f32,
    ) {
        let rows = PairRows {
            words: &self.pairs,
            row: 1,
            pair: self.width,
        };
        let found = &mut self.sums[..sums.len()];
        Pairs::fastest().sums(integers.pairs(n), rows, found);
        let [first, second] = &integers.factors;
        for (sum, found) in sums.iter_mut().zip(found) {
            *sum = map_lanes(|lane| {
                let product = product::<A>(found[lane], [first[lane], second[lane]]);
                join(lane, sum[lane], product)
            });
        }
    }
}

/// A sum, rounded once, times the factors; -0 becomes +0.
#[inline(always)]
fn product<A: FloatOps>(sum: i32, [first, second]: [f32; 2]) -> f32 {
    arith::pos0(A::mul(A::mul(sum as f32, first), second))
}

multiversion! {
    /// The integers of both digits.
    fn join(upper: &[i8], lower: &[i8], to: &mut [i16]) {
        for ((to, upper), lower) in to.iter_mut().zip(upper).zip(lower) {
            *to = (i16::from(*upper) << 8) + i16::from(*lower);
        }
    }
}

multiversion! {
    fn widen(digits: &[i8], to: &mut [i16]) {
        for (to, digit) in to.iter_mut().zip(digits) {
            *to = i16::from(*digit);
        }
    }
}

multiversion! {
    /// Pairs of two rows.
    fn interleave(first: &[i16], second: &[i16], pairs: &mut [i32]) {
        for ((pair, first), second) in pairs.iter_mut().zip(first).zip(second) {
            *pair = i32::from(*first as u16) | i32::from(*second) << 16;
        }
    }
}
