//! Quantised rows: of a tile, a row per lane, and of a block, as they lie in memory. Integers have 16 bits, and sums of their
//! products 32.

use bytemuck::{cast_slice, cast_slice_mut};
use hlx_core::arith::{self, FloatOps};
use hlx_core::cpu::simd_level;

use super::rows::{Block, Rows};
use super::tile::{Lanes, Seen, TILE, map_lanes};
use super::tiles::Tile;
use crate::attention::heads::Heads;
use crate::attention::pages::Table;
use crate::product::quantised::specification::{
    self, Digits, NO_EXPONENT, factors, magnitude, row_exponent,
};
use crate::product::transposed::transpose_columns;
use pairs::{PairRows, Pairs, Words};

pub mod one;
mod pairs;

/// Words that are transposed at a time.
const SIDE: usize = 16;

/// The quantised rows of heads.
#[derive(Clone, Copy)]
pub struct QuantisedRows<'a> {
    digits: &'a [i8],
    exponents: &'a [i32],
    of: Heads,
    /// Of rows in pages, which are the sequences of `of`.
    pages: Option<Table<'a>>,
}

impl<'a> QuantisedRows<'a> {
    /// Of the words of a buffer.
    pub fn new(words: &'a [f32], of: Heads) -> Self {
        let (digits, exponents) = words.split_at(of.digit_words());
        Self {
            digits: cast_slice(digits),
            exponents: cast_slice(exponents),
            of,
            pages: None,
        }
    }

    /// Rows in the pages of a pool, if there is a table.
    pub fn in_pages(self, pages: Option<Table<'a>>) -> Self {
        Self { pages, ..self }
    }

    /// The row of a tile's first; a tile of rows in pages lies in one of them.
    fn first_row(&self, tile: Tile) -> usize {
        match self.pages {
            None => self.of.row(tile.sample, tile.head, tile.first),
            Some(pages) => {
                let [page, place] = pages.at(tile.sample, tile.first);
                self.of.row(page, tile.head, place)
            }
        }
    }

    /// The digits of `n` rows, row after row: the upper ones, if rows have two digits, and the lower ones.
    fn digits(&self, row: usize, n: usize) -> (Option<&[i8]>, &[i8]) {
        let (padded, rows) = (self.of.padded(), self.of.rows());
        let of_plane = |plane: usize| &self.digits[(plane * rows + row) * padded..][..n * padded];
        match self.of.n_digits {
            Digits::Two => (Some(of_plane(0)), of_plane(1)),
            Digits::One => (None, of_plane(0)),
        }
    }
}

impl Rows for QuantisedRows<'_> {
    type Packed = Packed;
    type Block = QuantisedBlock;
    const QUERIES_BY_DOCUMENT: bool = true;

    fn pack(&self, tile: Tile) -> Packed {
        let mut block = self.block();
        block.read(self, tile);
        let words = block.row_words();
        let mut pairs = vec![[0; TILE]; words];
        let to: &mut [i32] = pairs.as_flattened_mut();
        for (half, rows) in block.rows.chunks_exact(SIDE * words).enumerate() {
            let mut columns: [&[i8]; SIDE] = [&[]; SIDE];
            for (column, row) in columns.iter_mut().zip(rows.chunks_exact(words)) {
                *column = cast_slice(row);
            }
            let strides = [SIDE * TILE, TILE];
            transpose_columns(simd_level(), columns, 0, strides, &mut to[SIDE * half..]);
        }
        pairs.truncate(block.width.div_ceil(2));
        let of_rows = &block.factors[..tile.n];
        let factors = [0, 1]
            .map(|half| map_lanes(|lane| of_rows.get(lane).map_or(1.0, |factors| factors[half])));
        Packed { pairs, factors }
    }

    fn block(&self) -> QuantisedBlock {
        let (padded, width) = (self.of.padded(), self.of.head_width);
        QuantisedBlock {
            rows: vec![0; TILE * padded / 2],
            pairs: vec![0; TILE / 2 * width],
            sums: vec![[0; TILE]; TILE.max(width)],
            factors: [[1.0; 2]; TILE],
            weights: QuantisedWeights::new(),
            width,
            n: 0,
        }
    }

    #[inline(always)]
    fn total<A: FloatOps>(
        l: Lanes,
        correction: &Lanes,
        weights: &mut [Lanes; TILE],
        n: usize,
    ) -> Lanes {
        weights[n..].fill([0.0; TILE]);
        let block = sum_by_halves(weights, |a, b| map_lanes(|lane| a[lane] + b[lane]));
        map_lanes(|lane| A::fma(l[lane], correction[lane], block[lane]))
    }
}

/// The sum of a block's weights, by halves: of a weight, or of a weight of each lane.
#[inline(always)]
fn sum_by_halves<T: Copy>(p: &[T; TILE], add: impl Fn(&T, &T) -> T) -> T {
    let mut sums = *p;
    let mut half = TILE / 2;
    while half > 0 {
        let (left, right) = sums.split_at_mut(half);
        for (left, right) in left.iter_mut().zip(right) {
            *left = add(left, right);
        }
        half /= 2;
    }
    sums[0]
}

/// The integers of a tile's rows, one row per lane, and the factors of their exponents.
pub struct Packed {
    pairs: Vec<Words>,
    factors: [Lanes; 2],
}

/// The integers of a block's rows, and the factors of their exponents.
pub struct QuantisedBlock {
    /// \[32, words of a row\], a pair of columns each.
    rows: Vec<i32>,
    /// \[16, width\], a pair of rows each.
    pairs: Vec<i32>,
    sums: Vec<Words>,
    factors: [[f32; 2]; TILE],
    weights: QuantisedWeights,
    width: usize,
    n: usize,
}

impl QuantisedBlock {
    fn row_words(&self) -> usize {
        self.rows.len() / TILE
    }

    /// Makes pairs of the rows read, for sums over them.
    fn pair_rows(&mut self) {
        let (words, n) = (self.row_words(), self.n);
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
}

impl<'a> Block<QuantisedRows<'a>> for QuantisedBlock {
    type Packed = Packed;

    fn read(&mut self, rows: &QuantisedRows<'a>, tile: Tile) {
        let (padded, n) = (rows.of.padded(), tile.n);
        let row = rows.first_row(tile);
        let to: &mut [i16] = &mut cast_slice_mut(&mut self.rows)[..n * padded];
        match rows.digits(row, n) {
            (Some(upper), lower) => join(upper, lower, to),
            (None, lower) => widen(lower, to),
        }
        for (to, exponent) in self.factors[..n].iter_mut().zip(&rows.exponents[row..]) {
            *to = factors(*exponent);
        }
        self.n = n;
    }

    #[inline(always)]
    fn products<A: FloatOps>(&mut self, out: &mut [Lanes], lanes: &Packed) {
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

    #[inline(always)]
    fn add<A: FloatOps>(
        &mut self,
        sums: &mut [Lanes],
        correction: Option<&Lanes>,
        weights: &mut [Lanes],
        seen: Option<Seen>,
        n_digits: Digits,
    ) {
        self.pair_rows();
        self.weights
            .fold::<A>(weights, &self.factors, seen.as_ref(), n_digits);
        let rows = PairRows {
            words: &self.pairs,
            row: 1,
            pair: self.width,
        };
        let found = &mut self.sums[..sums.len()];
        Pairs::fastest().sums(self.weights.pairs(self.n), rows, found);
        let [first, second] = &self.weights.factors;
        for (sum, found) in sums.iter_mut().zip(found) {
            *sum = map_lanes(|lane| {
                let product = product::<A>(found[lane], [first[lane], second[lane]]);
                match correction {
                    Some(correction) => A::fma(sum[lane], correction[lane], product),
                    None => sum[lane] + product,
                }
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

    fn widen(digits: &[i8], to: &mut [i16]) {
        for (to, digit) in to.iter_mut().zip(digits) {
            *to = i16::from(*digit);
        }
    }

    /// Pairs of two rows.
    fn interleave(first: &[i16], second: &[i16], pairs: &mut [i32]) {
        for ((pair, first), second) in pairs.iter_mut().zip(first).zip(second) {
            *pair = i32::from(*first as u16) | i32::from(*second) << 16;
        }
    }
}

/// Weights of a block as integers, one row of them a lane: pairs of neighbouring terms, and the factors of the exponents.
pub struct QuantisedWeights {
    pairs: [Words; TILE / 2],
    pub factors: [Lanes; 2],
}

impl QuantisedWeights {
    pub const fn new() -> Self {
        Self {
            pairs: [[0; TILE]; TILE / 2],
            factors: [[0.0; TILE]; 2],
        }
    }

    /// The pairs of `n` terms.
    pub fn pairs(&self, n: usize) -> &[Words] {
        &self.pairs[..n.div_ceil(2)]
    }

    /// Makes integers of `weights`, each first times the factors of its row's exponent; those that are not seen are 0.
    #[inline(always)]
    pub fn fold<A: FloatOps>(
        &mut self,
        weights: &mut [Lanes],
        factors: &[[f32; 2]; TILE],
        seen: Option<&Seen>,
        n_digits: Digits,
    ) {
        let mut tops = [0; TILE];
        for (row, (weights, [first, second])) in weights.iter_mut().zip(factors).enumerate() {
            let folded = map_lanes(|lane| A::mul(A::mul(weights[lane], *first), *second));
            *weights = match seen {
                None => folded,
                Some(seen) => seen.choose(row, &folded, 0.0),
            };
            for (top, x) in tops.iter_mut().zip(*weights) {
                *top = magnitude(x).max(*top);
            }
        }
        let mut scales = [[0.0; TILE]; 2];
        for (lane, top) in tops.into_iter().enumerate() {
            let exponent = row_exponent(top, n_digits);
            let [first, second] = specification::scale(exponent);
            // Where there is no exponent, all integers are 0.
            let has_one = exponent != NO_EXPONENT;
            scales[0][lane] = if has_one { first } else { 0.0 };
            scales[1][lane] = if has_one { second } else { 0.0 };
            [self.factors[0][lane], self.factors[1][lane]] = specification::factors(exponent);
        }
        for (rows, pairs) in weights.chunks(2).zip(&mut self.pairs) {
            let quantised = |lane: usize, row: &Lanes| {
                specification::quantised::<A>(row[lane], [scales[0][lane], scales[1][lane]])
            };
            match rows {
                [first, second] => {
                    for (lane, pair) in pairs.iter_mut().enumerate() {
                        let [x, y] = [first, second].map(|row| quantised(lane, row));
                        *pair = x & 0xffff | y << 16;
                    }
                }
                rows => {
                    for (lane, pair) in pairs.iter_mut().enumerate() {
                        *pair = rows.first().map_or(0, |row| quantised(lane, row)) & 0xffff;
                    }
                }
            }
        }
    }
}
