//! The product on the CPU: rectangles of C in parallel, by products of 16-bit integers whose sums are carried into 64
//! bits. Any way to the exact sum gives the same bits, so rectangles, blocks and instructions are free.

mod bounded;
#[cfg(target_arch = "x86_64")]
mod digits;
mod instructions;
#[cfg(test)]
mod tests;
mod tile;

use std::cell::Cell;
use std::ops::Range;
use std::sync::OnceLock;

use hlx_core::cpu::{SimdLevel, simd_level};
use hlx_core::{arith, multiversion};
use rayon::prelude::*;

#[cfg(target_arch = "x86_64")]
use self::digits::DigitScratch;
use self::instructions::Instructions;
use self::tile::{CARRY, COLUMNS, ROWS, Sums};
use super::law::factors;
use super::product::IntegerProduct;
pub(super) use bounded::groups;

/// Rows of a rectangle at most: those of a block of 512 terms are 384 KiB, and a panel of 16 columns is 16 KiB.
const MAX_ROWS: usize = 384;
/// Columns of a rectangle at most.
const MAX_COLUMNS: usize = 512;
/// At most so many rows of A meet B's rows where they lie: packing would cost more than it saves.
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
    /// All, of so many terms each.
    All(usize),
    /// One alone, of so many: its number, and its terms.
    One {
        index: usize,
        of: usize,
        terms: [usize; 2],
    },
}

/// What is added at the end of an element.
#[derive(Clone, Copy)]
pub(super) enum Added<'a> {
    Nothing,
    /// An element of this, \[batch, M, N\].
    Extra(&'a [f32]),
    /// What C held; of operands of one piece.
    Stored,
}

thread_local! {
    /// Each thread's memory, taken out while in use.
    static SCRATCH: Cell<Scratch> = const { Cell::new(Scratch::new()) };
}

/// Rows of A in 16 bits, strips of them and a panel of B for the tiles, the sums of a rectangle, a row of results, and what
/// products of digits need.
#[derive(Default)]
struct Scratch {
    rows: Vec<i16>,
    strips: Vec<i32>,
    panel: Vec<i16>,
    sums: Vec<i64>,
    results: Vec<f32>,
    #[cfg(target_arch = "x86_64")]
    digits: DigitScratch,
}

impl Scratch {
    const fn new() -> Self {
        Self {
            rows: Vec::new(),
            strips: Vec::new(),
            panel: Vec::new(),
            sums: Vec::new(),
            results: Vec::new(),
            #[cfg(target_arch = "x86_64")]
            digits: DigitScratch::new(),
        }
    }
}

/// C, shared among tasks that write disjoint rectangles.
#[derive(Clone, Copy)]
struct CPointer(*mut f32);

// SAFETY: the pointer comes from one `&mut [f32]` that outlives every task, and the tasks'
// rectangles are disjoint.
unsafe impl Send for CPointer {}
// SAFETY: as for `Send`.
unsafe impl Sync for CPointer {}

/// A rectangle of one of the products.
#[derive(Clone, Debug)]
struct Rectangle {
    product: usize,
    rows: Range<usize>,
    columns: Range<usize>,
}

#[derive(Clone, Copy)]
struct Product<'a> {
    instructions: Instructions,
    shape: IntegerProduct,
    operands: Operands<'a>,
    added: Added<'a>,
    c: CPointer,
}

/// The fastest instructions of the processor at the level in use.
pub(super) fn fastest() -> Instructions {
    static FASTEST: OnceLock<Instructions> = OnceLock::new();
    *FASTEST.get_or_init(|| *Instructions::of(simd_level()).last().expect("one at least"))
}

/// Computes products whose places in C are apart, by the fastest instructions.
pub(super) fn products(all: &[(IntegerProduct, Operands<'_>)], added: Added<'_>, c: &mut [f32]) {
    products_by(fastest(), all, added, c);
}

fn products_by(
    instructions: Instructions,
    all: &[(IntegerProduct, Operands<'_>)],
    added: Added<'_>,
    c: &mut [f32],
) {
    let (len, c) = (c.len(), CPointer(c.as_mut_ptr()));
    let threads = rayon::current_num_threads();
    let rectangles = all.iter().flat_map(|&(shape, operands)| {
        let is_empty = shape.batch * shape.m * shape.n == 0;
        assert!(is_empty || len >= shape.reach());
        let product = Product {
            instructions,
            shape,
            operands,
            added,
            c,
        };
        let rectangles = divide(&shape, instructions.tile(), threads);
        rectangles.into_iter().map(move |of| (product, of))
    });
    let rectangles: Vec<_> = rectangles.collect();
    rectangles.into_par_iter().for_each(|(product, rectangle)| {
        let mut scratch = SCRATCH.take();
        product.rectangle(&rectangle, &mut scratch);
        SCRATCH.set(scratch);
    });
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
    let rows =
        s.m.div_ceil(tasks.div_ceil(across))
            .next_multiple_of(height);
    let rows = rows.min(MAX_ROWS);
    let of = |whole: usize, part: usize| {
        (0..whole)
            .step_by(part)
            .map(move |first| first..whole.min(first + part))
    };
    let mut rectangles = Vec::new();
    for product in 0..s.batch {
        for columns in of(s.n, columns) {
            rectangles.extend(of(s.m, rows).map(|rows| Rectangle {
                product,
                rows,
                columns: columns.clone(),
            }));
        }
    }
    rectangles
}

impl Product<'_> {
    fn rectangle(&self, rectangle: &Rectangle, scratch: &mut Scratch) {
        // Whole tiles; the columns of a row of sums.
        let width = rectangle.columns.len().next_multiple_of(COLUMNS);
        let height = rectangle.rows.len().next_multiple_of(ROWS);
        for piece in self.pieces() {
            let terms = self.terms(piece);
            let few = self.shape.m <= FEW_ROWS;
            #[cfg(target_arch = "x86_64")]
            if let Instructions::Digits(digits) = self.instructions
                && !few
                && !terms.is_empty()
            {
                self.piece_of_digits(digits, rectangle, piece, terms, scratch);
                continue;
            }
            // The first terms overwrite what an earlier piece or task has left.
            scratch.sums.resize(height * width, 0);
            if terms.is_empty() {
                scratch.sums.fill(0);
            }
            match few {
                true => self.sums_of_few_rows(rectangle, terms, width, scratch),
                false => self.sums_of_tiles(rectangle, terms, width, scratch),
            }
            self.finish(rectangle, piece, width, scratch);
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

    /// Rows of A in 16 bits, and each row of B where it lies.
    fn sums_of_few_rows(
        &self,
        of: &Rectangle,
        terms: Range<usize>,
        width: usize,
        scratch: &mut Scratch,
    ) {
        let k = terms.len();
        scratch.rows.resize(of.rows.len() * k, 0);
        for (row, a) in of.rows.clone().zip(scratch.rows.chunks_exact_mut(k.max(1))) {
            let [high, low] = self.a_digits(of.product, row, &terms);
            widen(high, low, a);
        }
        for (j, column) in of.columns.clone().enumerate() {
            let b = self.b_digits(of.product, column, &terms);
            for (i, a) in scratch.rows.chunks_exact(k.max(1)).enumerate() {
                scratch.sums[i * width + j] = tile::dot(self.level(), a, b);
            }
        }
    }

    /// Blocks of terms: all rows of A in strips, and panel after panel of B, each with every strip of rows.
    fn sums_of_tiles(
        &self,
        of: &Rectangle,
        terms: Range<usize>,
        width: usize,
        scratch: &mut Scratch,
    ) {
        for start in terms.clone().step_by(CARRY) {
            let block = start..terms.end.min(start + CARRY);
            let k = block.len();
            // Rows and columns past the edge keep what was there: their sums are not read.
            scratch.rows.resize(k, 0);
            scratch
                .strips
                .resize(of.rows.len().div_ceil(ROWS) * ROWS * k / 2, 0);
            let strips = scratch.strips.chunks_exact_mut(ROWS * k / 2);
            for (first, strip) in of.rows.clone().step_by(ROWS).zip(strips) {
                for row in first..of.rows.end.min(first + ROWS) {
                    let [high, low] = self.a_digits(of.product, row, &block);
                    widen(high, low, &mut scratch.rows);
                    tile::pack_row(&scratch.rows, &mut strip[row - first..]);
                }
            }
            scratch.panel.resize(COLUMNS * k, 0);
            for first in of.columns.clone().step_by(COLUMNS) {
                let columns = first..of.columns.end.min(first + COLUMNS);
                let mut digits: [&[i8]; COLUMNS] = [&[]; COLUMNS];
                for (digits, column) in digits.iter_mut().zip(columns.clone()) {
                    *digits = self.b_digits(of.product, column, &block);
                }
                tile::pack_columns(self.level(), &digits[..columns.len()], &mut scratch.panel);
                let strips = scratch.strips.chunks_exact(ROWS * k / 2);
                let sums = scratch.sums.chunks_exact_mut(ROWS * width);
                let mut tile = [[0; COLUMNS]; ROWS];
                for (strip, sums) in strips.zip(sums) {
                    tile::tile(self.level(), strip, &scratch.panel, &mut tile);
                    let sums = &mut sums[first - of.columns.start..];
                    match start == terms.start {
                        true => begin_sums(&tile, width, sums),
                        false => carry(&tile, width, sums),
                    }
                }
            }
        }
    }

    /// Turns the sums of a piece into results and stores them.
    fn finish(&self, of: &Rectangle, piece: usize, width: usize, scratch: &mut Scratch) {
        let of_columns = of
            .columns
            .clone()
            .map(|column| self.factors_of(1, of.product, column, piece));
        let (firsts, seconds): (Vec<f32>, Vec<f32>) = of_columns.map(|[a, b]| (a, b)).unzip();
        for (row, sums) in of.rows.clone().zip(scratch.sums.chunks(width)) {
            let sums = &sums[..of.columns.len()];
            let of_row = self.factors_of(0, of.product, row, piece);
            scratch.results.resize(sums.len(), 0.0);
            results(sums, of_row, &firsts, &seconds, &mut scratch.results);
            self.finish_row((of.product, row), &of.columns, piece, &mut scratch.results);
        }
    }

    /// Stores a piece's results of columns of a row, with what they are added to. They are changed on the way and not in C,
    /// whose rows may be so many bytes apart that they push each other out of the cache.
    fn finish_row(
        &self,
        (product, row): (usize, usize),
        columns: &Range<usize>,
        piece: usize,
        values: &mut [f32],
    ) {
        let s = &self.shape;
        let ([c_first, c_row], pieces) = (s.place(), self.pieces());
        let (is_first, is_last) = (piece == pieces.start, piece + 1 == pieces.end);
        let is_added = matches!(self.added, Added::Stored);
        let bias_at = self.row(1, product, columns.start);
        if s.transposed {
            let mut place = c_first + (product * s.n + columns.start) * c_row + row;
            for (i, v) in values.iter_mut().enumerate() {
                // SAFETY: the rectangle's rows and columns lie in C, and no other task touches them.
                let c = unsafe { &mut *self.c.0.add(place) };
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
        let c = unsafe { std::slice::from_raw_parts_mut(self.c.0.add(at), columns.len()) };
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

    /// Of the sums of pairs of integers.
    fn level(&self) -> SimdLevel {
        match self.instructions {
            Instructions::Pairs(level) => level,
            #[cfg(target_arch = "x86_64")]
            Instructions::Digits(_) => simd_level(),
        }
    }

    /// The numbers of the pieces.
    fn pieces(&self) -> Range<usize> {
        match self.operands.pieces {
            Pieces::All(size) => 0..self.operands.padded.div_ceil(size).max(1),
            Pieces::One { index, .. } => index..index + 1,
        }
    }

    /// The terms of a piece.
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
        let of_row = match self.operands.pieces {
            Pieces::All(_) => self.pieces().end,
            Pieces::One { of, .. } => of,
        };
        let row = self.row(operand, product, row);
        factors(self.operands.exponents[operand][row * of_row + piece])
    }

    /// Adds the bias, from `bias_at` on, and the extra operand behind the last piece.
    fn end(&self, values: &mut [f32], at: usize, bias_at: usize) {
        if let Some(bias) = self.operands.bias {
            let with_bias = |v, bias| arith::pos0(arith::add(v, bias));
            each(values, &bias[bias_at..], with_bias);
        }
        if let Added::Extra(extra) = self.added {
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
    /// Joins the digits of a row.
    fn widen(high: &[i8], low: &[i8], to: &mut [i16]) {
        for ((to, high), low) in to.iter_mut().zip(high).zip(low) {
            *to = (i16::from(*high) << 8) + i16::from(*low);
        }
    }
}

multiversion! {
    /// Stores the sums of a tile in its rows, `width` apart.
    fn begin_sums(tile: &Sums, width: usize, sums: &mut [i64]) {
        for (of_tile, sums) in tile.iter().zip(sums.chunks_mut(width)) {
            for (sum, of_tile) in sums[..COLUMNS].iter_mut().zip(of_tile) {
                *sum = i64::from(*of_tile);
            }
        }
    }
}

multiversion! {
    /// Adds the sums of a tile to those of its rows, `width` apart.
    fn carry(tile: &Sums, width: usize, sums: &mut [i64]) {
        for (of_tile, sums) in tile.iter().zip(sums.chunks_mut(width)) {
            for (sum, of_tile) in sums[..COLUMNS].iter_mut().zip(of_tile) {
                *sum += i64::from(*of_tile);
            }
        }
    }
}

multiversion! {
    /// The results of a row: its exact sums rounded once, times the factors of row and columns.
    fn results<A>(
        sums: &[i64],
        of_row: [f32; 2],
        firsts: &[f32],
        seconds: &[f32],
        to: &mut [f32],
    ) {
        let of_columns = firsts.iter().zip(seconds);
        for ((to, sum), (first, second)) in to.iter_mut().zip(sums).zip(of_columns) {
            // Both parts are exact, as a sum has fewer than 55 bits.
            let upper = ((*sum as u64) >> 24) as i32 as f32;
            let lower = (*sum as i32 & 0x00ff_ffff) as f32;
            let v = A::fma(upper, 16_777_216.0, lower);
            let [first, second] = [A::mul(of_row[0], *first), A::mul(of_row[1], *second)];
            *to = arith::pos0(A::mul(A::mul(v, first), second));
        }
    }
}

#[cfg(target_arch = "x86_64")]
multiversion! {
    /// The results of a tile's rows, `width` apart, from the sums of both digits of A, which are too large by `excess`.
    fn results_of_digits<A>(
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
