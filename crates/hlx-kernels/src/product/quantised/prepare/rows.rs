//! The rows of an operand on the CPU, which threads write a few at a time.

use bytemuck::cast_slice_mut;
use hlx_core::multiversion;

use super::super::specification::{Digits, NO_EXPONENT, magnitude, quantised, row_exponent, scale};
use super::preparation::Preparation;

/// Digits of rows by planes, upper ones only if rows have two digits, and the rows' exponents.
pub(crate) struct DigitRows<'a> {
    pub planes: [&'a mut [i8]; 2],
    pub exponents: &'a mut [i32],
    padded: usize,
    /// Exponents of a row.
    pieces: usize,
}

impl<'a> DigitRows<'a> {
    /// Those of an operand in words of 32 bits.
    pub fn new(
        digits: &'a mut [f32],
        exponents: &'a mut [f32],
        of: &Preparation,
        pieces: usize,
    ) -> Self {
        let plane = of.rows * of.padded();
        let digits: &mut [i8] = &mut cast_slice_mut(digits)[..of.digits_len()];
        let (upper, lower) = digits.split_at_mut(of.digits_len() - plane);
        Self {
            planes: [upper, lower],
            exponents: &mut cast_slice_mut(exponents)[..of.rows * pieces],
            padded: of.padded(),
            pieces: pieces.max(1),
        }
    }

    /// The number of rows.
    pub fn len(&self) -> usize {
        self.exponents.len() / self.pieces
    }

    /// Splits the first rows off.
    pub fn split_off(&mut self, rows: usize) -> Self {
        let rows = rows.min(self.len());
        let digits = rows * self.padded;
        let planes = self.planes.each_mut().map(|plane| {
            let digits = digits.min(plane.len());
            plane.split_off_mut(..digits).unwrap_or_default()
        });
        let exponents = self.exponents.split_off_mut(..rows * self.pieces);
        Self {
            planes,
            exponents: exponents.unwrap_or_default(),
            ..*self
        }
    }

    /// The rows in tasks of `rows`.
    pub fn tasks(mut self, rows: usize) -> Vec<Self> {
        let count = self.len().div_ceil(rows.max(1));
        (0..count).map(|_| self.split_off(rows)).collect()
    }

    /// Writes the digits of the first row, whose pieces begin `piece` terms apart, zeros behind them, and its exponents; then the
    /// next row is the first.
    pub fn prepare(&mut self, x: &[f32], piece: usize) {
        let Self {
            planes: [upper, lower],
            exponents,
            padded,
            ..
        } = self.split_off(1);
        for (number, exponent) in exponents.iter_mut().enumerate() {
            let first = number * piece;
            let to = first..padded.min(first + piece);
            let terms = &x[first.min(x.len())..x.len().min(to.end)];
            let upper = upper.get_mut(to.clone()).unwrap_or_default();
            *exponent = prepare_row(terms, upper, &mut lower[to]);
        }
    }
}

/// Writes the digits of a row of one piece, zeros behind them, and returns its exponent; a row without upper digits has one digit.
pub fn prepare_row(x: &[f32], upper: &mut [i8], lower: &mut [i8]) -> i32 {
    let n_digits = if upper.is_empty() {
        Digits::One
    } else {
        Digits::Two
    };
    let exponent = row_exponent(top(x), n_digits);
    upper.iter_mut().skip(x.len()).for_each(|digit| *digit = 0);
    lower[x.len()..].fill(0);
    let upper = upper.get_mut(..x.len()).unwrap_or_default();
    digits(x, factors(exponent), upper, &mut lower[..x.len()]);
    exponent
}

/// 2^e as two factors; zeros of a piece without an exponent, whose digits are zeros.
pub(super) fn factors(exponent: i32) -> [f32; 2] {
    match exponent {
        NO_EXPONENT => [0.0; 2],
        e => scale(e),
    }
}

/// Numbers that a loop takes at a time.
const LANES: usize = 32;

multiversion! {
    /// The largest magnitude.
    pub fn top(x: &[f32]) -> u32 {
        let mut tops = [0; LANES];
        let (whole, rest) = x.as_chunks::<LANES>();
        for x in whole {
            for (top, x) in tops.iter_mut().zip(x) {
                *top = (*top).max(magnitude(*x));
            }
        }
        let rest = rest.iter().map(|x| magnitude(*x));
        rest.chain(tops).fold(0, u32::max)
    }

    fn digits<A>(x: &[f32], factors: [f32; 2], upper: &mut [i8], lower: &mut [i8]) {
        let (whole, rest) = x.as_chunks::<LANES>();
        let (uppers, upper) = upper.as_chunks_mut::<LANES>();
        let (lowers, lower) = lower.as_chunks_mut::<LANES>();
        let (mut uppers, mut upper) = (uppers.iter_mut(), upper.iter_mut());
        for (x, lower) in whole.iter().zip(lowers) {
            let mut integers = [0; LANES];
            for (q, x) in integers.iter_mut().zip(x) {
                *q = quantised::<A>(*x, factors);
            }
            for (lower, q) in lower.iter_mut().zip(integers) {
                *lower = q as i8;
            }
            for (upper, q) in uppers.next().into_iter().flatten().zip(integers) {
                *upper = ((q + 128) >> 8) as i8;
            }
        }
        for (x, lower) in rest.iter().zip(lower) {
            let q = quantised::<A>(*x, factors);
            *lower = q as i8;
            upper.next().into_iter().for_each(|upper| *upper = ((q + 128) >> 8) as i8);
        }
    }
}
