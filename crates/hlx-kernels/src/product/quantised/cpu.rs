//! The product on the CPU: rectangles of C in parallel, by whatever instructions give the exact sums. Any way to these gives
//! the same bits, so rectangles, blocks and instructions are free.

#[cfg(target_arch = "x86_64")]
mod amx;
mod groups;
mod instructions;
mod pairs;
#[cfg(test)]
mod tests;
mod tiles;
#[cfg(target_arch = "x86_64")]
mod vnni;

use std::ops::Range;
use std::sync::OnceLock;

use hlx_core::cpu::{SimdLevel, simd_level};
use hlx_core::{arith, multiversion};

use self::instructions::{Instructions, MAX_TILE};
use super::shape::IntegerProduct;
use super::specification::factors;
use crate::parallel;
use crate::product::rectangles::{Rectangle, Target, parts};
pub(super) use groups::groups;

/// Rows of a rectangle at most: those of a block of 512 terms are 384 KiB, and a panel of 16 columns is 16 KiB.
const MAX_ROWS: usize = 384;
/// Columns of a rectangle at most.
const MAX_COLUMNS: usize = 512;
/// At most this many rows of A meet B's rows where they lie: packing would cost more than it saves.
const FEW_ROWS: usize = 16;
/// Multiply-adds below which a rectangle is not worth its own task (about 30 us).
const MIN_TASK_WORK: usize = 1 << 21;

/// Operands as they lie in memory.
#[derive(Clone, Copy)]
pub(super) struct Operands<'a> {
    /// Of A, \[2, batch M, padded\], and of B, \[batch N, padded\].
    pub digits: [&'a [i8]; 2],
    /// By rows and pieces.
    pub exponents: [&'a [i32]; 2],
    /// \[groups, N\].
    pub bias: Option<&'a [f32]>,
    /// What is added to the results at the end, \[batch, M, N\].
    pub extra: Option<&'a [f32]>,
    pub padded: usize,
    /// Rows of A in a plane of its digits.
    pub a_rows: usize,
    /// The first rows of A and of B that count.
    pub first: [usize; 2],
    pub pieces: Pieces,
}

/// The pieces of rows that products sum over.
#[derive(Clone, Copy)]
pub(super) enum Pieces {
    /// All, of this many terms each.
    All(usize),
    /// One alone, of this many: its number, and its terms.
    One {
        index: usize,
        of: usize,
        terms: [usize; 2],
    },
}

#[derive(Clone, Copy)]
struct Product<'a> {
    instructions: Instructions,
    shape: IntegerProduct,
    operands: Operands<'a>,
    /// The first of the pieces that are summed over, and the one behind the last.
    pieces: [usize; 2],
    /// Pieces that a row has.
    of_row: usize,
    c: Target,
}

/// Rows and columns of one of the products whose sums become results together.
struct Tile<'a> {
    product: usize,
    rows: Range<usize>,
    columns: &'a Range<usize>,
    /// Of the columns.
    factors: &'a [[f32; MAX_TILE[1]]; 2],
    /// Sums of a row.
    width: usize,
    /// Those of the upper digits of the rows, and then those of the lower ones.
    sums: &'a [i32],
    /// What a row's are too large by.
    excess: &'a [[i32; 2]],
}

/// What this processor has at the level, the slowest first.
fn instructions(level: SimdLevel) -> Vec<Instructions> {
    let all = [pairs::instructions(level)].into_iter();
    #[cfg(target_arch = "x86_64")]
    let all = all
        .chain(vnni::instructions(level))
        .chain(amx::instructions(level));
    all.collect()
}

/// The fastest instructions of the processor at the level in use.
pub(super) fn fastest() -> Instructions {
    static FASTEST: OnceLock<Instructions> = OnceLock::new();
    *FASTEST.get_or_init(|| *instructions(simd_level()).last().expect("one at least"))
}

/// Computes products whose places in C are apart, by the fastest instructions.
pub(super) fn products(all: &[(IntegerProduct, Operands<'_>)], c: &mut [f32]) {
    products_by(fastest(), all, c);
}

fn products_by(instructions: Instructions, all: &[(IntegerProduct, Operands<'_>)], c: &mut [f32]) {
    let c = Target::new(c);
    let threads = hlx_core::cpu::threads_of_launch();
    let mut rectangles = Vec::new();
    for &(shape, operands) in all {
        let (pieces, of_row) = match operands.pieces {
            Pieces::All(size) => {
                let count = operands.padded.div_ceil(size).max(1);
                ([0, count], count)
            }
            Pieces::One { index, of, .. } => ([index, index + 1], of),
        };
        let product = Product {
            instructions,
            shape,
            operands,
            pieces,
            of_row,
            c,
        };
        let of = divide(&shape, instructions.tile, threads);
        rectangles.extend(of.into_iter().map(|of| (product, of)));
    }
    parallel::each(&mut rectangles, |(product, of)| product.rectangle(of));
}

/// Rectangles that are large, but enough of them for the threads.
fn divide(s: &IntegerProduct, [height, width]: [usize; 2], threads: usize) -> Vec<Rectangle> {
    if s.batch * s.m * s.n == 0 {
        return Vec::new();
    }
    let few = s.m <= FEW_ROWS;
    let work = s.batch * s.m * s.n * s.k.max(1);
    let tasks = (4 * threads).min(work.div_ceil(MIN_TASK_WORK));
    let columns = match few {
        // One pass over B: its rows are divided evenly.
        true => s.n.div_ceil(tasks).next_multiple_of(width).min(MAX_COLUMNS),
        false => MAX_COLUMNS,
    };
    let across = s.batch * s.n.div_ceil(columns);
    let rows = s.m.div_ceil(tasks.div_ceil(across));
    let rows = rows.next_multiple_of(height);
    Rectangle::all([s.batch, s.m, s.n], [rows.min(MAX_ROWS), columns])
}

impl Product<'_> {
    fn rectangle(&self, of: &Rectangle) {
        for piece in self.pieces[0]..self.pieces[1] {
            let terms = self.terms(piece);
            match terms.is_empty() || self.shape.m <= FEW_ROWS {
                true => self.by_dots(of, piece, terms),
                false => self.by_tiles(of, piece, terms),
            }
        }
    }

    /// The row of A, or of B, of a row of a product.
    fn row(&self, operand: usize, product: usize, row: usize) -> usize {
        let s = &self.shape;
        let before = match operand {
            0 => product * s.m,
            _ => product % s.n_groups() * s.n,
        };
        self.operands.first[operand] + before + row
    }

    /// The digits of a row of A, from both planes, or of B.
    fn a_digits(&self, product: usize, row: usize, terms: &Range<usize>) -> [&[i8]; 2] {
        let padded = self.operands.padded;
        let line = self.row(0, product, row);
        [line, self.operands.a_rows + line]
            .map(|line| &self.operands.digits[0][line * padded..][terms.clone()])
    }

    fn b_digits(&self, product: usize, column: usize, terms: &Range<usize>) -> &[i8] {
        let line = self.row(1, product, column);
        &self.operands.digits[1][line * self.operands.padded..][terms.clone()]
    }

    /// Results of few rows, or of no terms: rows of A in 16 bits, and each row of B where it lies.
    fn by_dots(&self, of: &Rectangle, piece: usize, terms: Range<usize>) {
        let (k, level, [height, width]) = (terms.len(), self.instructions.level, MAX_TILE);
        let mut sums = [0; 2 * MAX_TILE[0] * MAX_TILE[1]];
        let mut values = [0.0; MAX_TILE[0] * MAX_TILE[1]];
        parallel::scratch(height * k, |wide: &mut [i16]| {
            for rows in parts(&of.rows, height) {
                for (i, row) in rows.clone().enumerate() {
                    let digits = self.a_digits(of.matrix, row, &terms);
                    pairs::widen(digits, &mut wide[i * k..][..k]);
                }
                for columns in parts(&of.columns, width) {
                    for (j, column) in columns.clone().enumerate() {
                        let b = self.b_digits(of.matrix, column, &terms);
                        for i in 0..rows.len() {
                            let [high, low] = pairs::dot(level, &wide[i * k..][..k], b);
                            sums[i * width + j] = high;
                            sums[(height + i) * width + j] = low;
                        }
                    }
                    let tile = Tile {
                        product: of.matrix,
                        rows: rows.clone(),
                        columns: &columns,
                        factors: &self.factors_of_columns(of.matrix, &columns, piece),
                        width,
                        sums: &sums,
                        excess: &[[0; 2]; MAX_TILE[0]],
                    };
                    self.finish(&tile, piece, &mut values);
                }
            }
        });
    }

    /// Computes results from the sums of a tile, in `values`, and stores them.
    fn finish(&self, of: &Tile<'_>, piece: usize, values: &mut [f32]) {
        let mut of_rows = [[0.0; 2]; MAX_TILE[0]];
        for (factors, row) in of_rows.iter_mut().zip(of.rows.clone()) {
            *factors = self.factors_of(0, of.product, row, piece);
        }
        let (n_rows, width) = (of.rows.len(), of.width);
        let of_columns = of.factors.each_ref().map(|factors| &factors[..]);
        let (values, of_rows) = (&mut values[..n_rows * width], &of_rows[..n_rows]);
        results(of.sums, of.excess, of_rows, of_columns, width, values);
        for (row, values) in of.rows.clone().zip(values.chunks_exact_mut(width)) {
            let values = &mut values[..of.columns.len()];
            self.finish_row(of.product, row, of.columns, piece, values);
        }
    }

    /// Stores a piece's results of columns of a row, with what they are added to. They are changed on the way and not in C,
    /// whose rows may be so many bytes apart that they push each other out of the cache.
    fn finish_row(
        &self,
        product: usize,
        row: usize,
        columns: &Range<usize>,
        piece: usize,
        values: &mut [f32],
    ) {
        let s = &self.shape;
        let [c_first, c_row] = s.place();
        let [is_first, is_last] = [piece == self.pieces[0], piece + 1 == self.pieces[1]];
        let is_added = s.accumulate;
        let bias_at = self.row(1, product, columns.start);
        if s.transposed {
            let mut place = c_first + (product * s.n + columns.start) * c_row + row;
            for (i, v) in values.iter_mut().enumerate() {
                // SAFETY: no other task touches the rectangle's rows and columns.
                let c = unsafe { &mut *self.c.at(place, 1) };
                if !is_first {
                    *v = arith::add(*c, *v);
                }
                if let Some(bias) = self.operands.bias.filter(|_| is_last) {
                    *v = arith::pos0(arith::add(*v, bias[bias_at + i]));
                }
                *c = if is_added { arith::add(*v, *c) } else { *v };
                place += c_row;
            }
            return;
        }
        let at = c_first + (product * s.m + row) * c_row + columns.start;
        // SAFETY: as above.
        let c =
            unsafe { std::slice::from_raw_parts_mut(self.c.at(at, columns.len()), columns.len()) };
        if !is_first {
            each(values, c, |v, c| arith::add(c, v));
        }
        if is_last {
            self.end(values, at, bias_at);
        }
        if is_added {
            each(values, c, arith::add);
        }
        c.copy_from_slice(values);
    }
    fn terms(&self, piece: usize) -> Range<usize> {
        match self.operands.pieces {
            Pieces::All(size) => piece * size..self.operands.padded.min((piece + 1) * size),
            Pieces::One {
                terms: [first, end],
                ..
            } => first..end,
        }
    }

    /// The factors of a piece of a row of A or of B.
    fn factors_of(&self, operand: usize, product: usize, row: usize, piece: usize) -> [f32; 2] {
        let row = self.row(operand, product, row);
        factors(self.operands.exponents[operand][row * self.of_row + piece])
    }

    /// Those of columns, the first factors and the second ones.
    fn factors_of_columns(
        &self,
        product: usize,
        columns: &Range<usize>,
        piece: usize,
    ) -> [[f32; MAX_TILE[1]]; 2] {
        let mut factors = [[0.0; MAX_TILE[1]]; 2];
        for (i, column) in columns.clone().enumerate() {
            [factors[0][i], factors[1][i]] = self.factors_of(1, product, column, piece);
        }
        factors
    }

    /// Adds the bias, from `bias_at` on, and the extra operand behind the last piece.
    fn end(&self, values: &mut [f32], at: usize, bias_at: usize) {
        if let Some(bias) = self.operands.bias {
            let with_bias = |v, bias| arith::pos0(arith::add(v, bias));
            each(values, &bias[bias_at..], with_bias);
        }
        if let Some(extra) = self.operands.extra {
            each(values, &extra[at..], arith::add);
        }
    }
}

/// Replaces each value by what it gives with that of another row.
fn each(values: &mut [f32], others: &[f32], f: impl Fn(f32, f32) -> f32) {
    for (v, other) in values.iter_mut().zip(others) {
        *v = f(*v, *other);
    }
}

multiversion! {
    /// The results of a tile's rows, `width` apart: their exact sums, of which there is one for each digit of A, rounded once, times
    /// the factors of row and columns.
    fn results<A>(
        sums: &[i32],
        excess: &[[i32; 2]],
        of_rows: &[[f32; 2]],
        of_columns: [&[f32]; 2],
        width: usize,
        to: &mut [f32],
    ) {
        let (high, low) = sums.split_at(sums.len() / 2);
        let sums = high.chunks_exact(width).zip(low.chunks_exact(width));
        let rows = to.chunks_exact_mut(width).zip(of_rows).zip(excess);
        for (((to, of_row), excess), (high, low)) in rows.zip(sums) {
            let of_columns = of_columns[0].iter().zip(of_columns[1]);
            let sums = high.iter().zip(low);
            for ((to, (high, low)), (first, second)) in to.iter_mut().zip(sums).zip(of_columns) {
                let low = low.wrapping_sub(excess[1]);
                let upper = high.wrapping_sub(excess[0]) + (low >> 8);
                let lower = ((upper & 0xffff) << 8 | (low & 0xff)) as f32;
                let v = A::fma((upper >> 16) as f32, 16_777_216.0, lower);
                let [first, second] = [A::mul(of_row[0], *first), A::mul(of_row[1], *second)];
                *to = arith::pos0(A::mul(A::mul(v, first), second));
            }
        }
    }
}
