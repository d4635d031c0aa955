//! Every instruction set and thread count against the definition, number by number.

use hlx_core::arith;
use hlx_core::cpu::{simd_levels, with_flush};

use super::super::specification::{Digits, NO_EXPONENT};
use super::super::tests::definition::result;
use super::super::{PIECE, Preparation};
use super::*;

/// Digits of all sizes; the first row of either operand has the largest.
struct Case {
    shape: IntegerProduct,
    of: [Preparation; 2],
    digits: [Vec<i8>; 2],
    exponents: [Vec<i32>; 2],
    bias: Vec<f32>,
    extra: Vec<f32>,
}

fn words(seed: u32) -> impl Iterator<Item = u32> {
    (0..).flat_map(move |i| arith::philox4x32([i, seed, 7, 0], [1, 2]))
}

impl Case {
    fn new([batch, m, n, k]: [usize; 4]) -> Self {
        let of = [
            Preparation::of_rows(batch * m, k, Digits::Two),
            Preparation::of_rows(batch * n, k, Digits::One),
        ];
        let digits = |i: usize, largest: i8| -> Vec<i8> {
            let padded = of[i].padded();
            let digit = |(at, word): (usize, u32)| match at / padded.max(1) {
                0 => largest,
                _ => (word as i8).max(-127),
            };
            words(i as u32)
                .take(of[i].digits_len())
                .enumerate()
                .map(digit)
                .collect()
        };
        let exponents = |i: usize| -> Vec<i32> {
            let exponent = |word: u32| match word % 11 {
                0 => NO_EXPONENT,
                1 => 140,
                2 => -114,
                _ => (word % 40) as i32 - 20,
            };
            words(9 + i as u32)
                .take(of[i].exponents_len())
                .map(exponent)
                .collect()
        };
        let floats = |seed| words(seed).map(|word| word as i32 as f32 * 1e-9);
        Self {
            shape: IntegerProduct {
                batch,
                ..IntegerProduct::new(m, n, k)
            },
            of,
            digits: [digits(0, 127), digits(1, -127)],
            exponents: [exponents(0), exponents(1)],
            bias: floats(3).take(batch * n).collect(),
            extra: floats(4).take(batch * m * n).collect(),
        }
    }

    fn operands(&self, with_bias: bool, with_extra: bool) -> Operands<'_> {
        Operands {
            digits: [&self.digits[0], &self.digits[1]],
            exponents: [&self.exponents[0], &self.exponents[1]],
            bias: with_bias.then_some(&self.bias[..]),
            extra: with_extra.then_some(&self.extra[..]),
            padded: self.of[0].padded(),
            a_rows: self.of[0].rows,
            first: [0; 2],
            pieces: Pieces::All(PIECE),
        }
    }

    /// An element by the specification.
    fn element(&self, row: usize, column: usize, with_bias: bool) -> f32 {
        let [padded, pieces] = [self.of[0].padded(), self.of[0].pieces()];
        let s = &self.shape;
        let at = row / s.m * s.n + column;
        let of_piece = |piece: usize| {
            let terms = piece * PIECE..padded.min((piece + 1) * PIECE);
            let sums = [row, s.batch * s.m + row].map(|line| -> i32 {
                let term = |i: usize| {
                    i32::from(self.digits[0][line * padded + i])
                        * i32::from(self.digits[1][at * padded + i])
                };
                terms.clone().map(term).sum()
            });
            result(
                sums,
                [
                    self.exponents[0][row * pieces + piece],
                    self.exponents[1][at * pieces + piece],
                ],
            )
        };
        let sum = (0..pieces)
            .map(of_piece)
            .reduce(arith::add)
            .expect("a piece");
        match with_bias {
            true => arith::pos0(arith::add(sum, self.bias[at])),
            false => sum,
        }
    }

    fn check(&self, instructions: Instructions, threads: usize) {
        let s = &self.shape;
        for with_bias in [false, true] {
            for [with_extra, accumulate] in [[false; 2], [true, false], [false, true]] {
                if accumulate && self.of[0].pieces() > 1 {
                    continue;
                }
                let s = IntegerProduct { accumulate, ..*s };
                let mut c = self.extra.clone();
                let pool = rayon::ThreadPoolBuilder::new()
                    .num_threads(threads)
                    .spawn_handler(|thread| {
                        std::thread::Builder::new().spawn(|| with_flush(|| thread.run()))?;
                        Ok(())
                    })
                    .build()
                    .expect("a pool");
                pool.install(|| {
                    let product = (s, self.operands(with_bias, with_extra));
                    products_by(instructions, &[product], &mut c)
                });
                for (at, found) in c.iter().enumerate() {
                    let (row, column) = (at / s.n, at % s.n);
                    let v = with_flush(|| self.element(row, column, with_bias));
                    let expected = match with_extra || accumulate {
                        true => arith::add(v, self.extra[at]),
                        false => v,
                    };
                    let same = found.to_bits() == expected.to_bits()
                        || (found.is_nan() && expected.is_nan());
                    assert!(
                        same,
                        "{instructions} {s:?} {row}, {column}: {found:e}, expected {expected:e}"
                    );
                }
            }
        }
    }
}

#[test]
fn every_instruction_set_and_edge_has_the_bits_of_the_law() {
    for sizes in [
        [1, 1, 1, 1],
        [2, 3, 5, 0],
        [1, 1, 200, 64],
        [1, 16, 33, 65],
        [3, 17, 16, 513],
        [1, 6, 15, 1_024],
        [2, 20, 37, 1_030],
        [1, 500, 3, 70],
        [1, 19, 200, 128],
        [1, 18, 20, PIECE + 1],
        [1, 2, 20, 2 * PIECE],
    ] {
        let case = Case::new(sizes);
        for way in simd_levels().into_iter().flat_map(instructions) {
            for threads in [1, 3] {
                case.check(way, threads);
            }
        }
    }
}
