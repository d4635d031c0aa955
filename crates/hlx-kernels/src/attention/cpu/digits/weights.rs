//! Weights of a block as integers.

use hlx_core::arith::FloatOps;

use super::pairs::Words;
use crate::attention::cpu::tile::{Lanes, Seen, TILE, map_lanes};
use crate::product::quantised::law::{self, NO_EXPONENT, Width, magnitude, row_exponent};

/// Weights of a block as integers, one row of them a lane: pairs of neighbouring terms, and the factors of the exponents.
pub struct Integers {
    pairs: [Words; TILE / 2],
    pub factors: [Lanes; 2],
}

impl Integers {
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
        width: Width,
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
            let exponent = row_exponent(top, width);
            let [first, second] = law::scale(exponent);
            // Where there is no exponent, all integers are 0.
            let has_one = exponent != NO_EXPONENT;
            scales[0][lane] = if has_one { first } else { 0.0 };
            scales[1][lane] = if has_one { second } else { 0.0 };
            [self.factors[0][lane], self.factors[1][lane]] = law::factors(exponent);
        }
        for (rows, pairs) in weights.chunks(2).zip(&mut self.pairs) {
            let quantised = |lane: usize, row: &Lanes| {
                law::quantised::<A>(row[lane], [scales[0][lane], scales[1][lane]])
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
