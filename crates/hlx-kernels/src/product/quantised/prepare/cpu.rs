//! Preparation on the CPU: rows, or blocks of columns that read whole cache lines, in parallel.

use std::ops::Range;

use bytemuck::{cast_slice, cast_slice_mut};
use hlx_core::cpu::simd_level;
use hlx_core::multiversion;

use super::super::PIECE;
use super::super::specification::{EXPONENT_OF_ZEROS, magnitude, quantised, row_exponent};
use super::preparation::Preparation;
use super::rows::{DigitRows, factors, top};
use crate::parallel::{self, read, write};
use crate::product::transposed::transpose_columns;

/// Columns of a block, and rows that are transposed at a time.
const SIDE: usize = 64;

/// A piece of the columns: the matrix's rows that are its terms, and where its digits begin.
pub(super) struct Piece {
    pub rows: Range<usize>,
    pub to: usize,
}

/// Writes the digits, i8 in words of 32 bits, and the exponents of `x`.
///
/// Of columns, only the matrices' rows enter the largest magnitudes of which `counted`, exponents by rows and pieces, are not
/// all those of zeros, if it is given.
pub(super) fn prepare(
    x: &[f32],
    digits: &mut [f32],
    exponents: &mut [f32],
    s: &Preparation,
    counted: Option<(&[i32], usize)>,
) {
    let piece = |to: usize| Piece {
        rows: to..s.k.min(to + s.piece),
        to,
    };
    let pieces: Vec<Piece> = (0..s.pieces()).map(|at| piece(at * s.piece)).collect();
    prepare_pieces(x, digits, exponents, s, &pieces, counted);
}

/// As [`prepare`], by pieces of their own.
pub(super) fn prepare_pieces(
    x: &[f32],
    digits: &mut [f32],
    exponents: &mut [f32],
    s: &Preparation,
    pieces: &[Piece],
    counted: Option<(&[i32], usize)>,
) {
    let mut all = DigitRows::new(digits, exponents, s, pieces.len());
    // Blocks of columns of each matrix, or rows of about as many numbers.
    let (matrix, per_task) = match s.of_columns {
        true => (s.columns(), SIDE),
        false => (s.rows, (4 * PIECE).div_ceil(s.padded().max(1))),
    };
    let mut tasks = Vec::new();
    for start in (0..s.rows).step_by(matrix.max(1)) {
        let of_matrix = all.split_off(matrix).tasks(per_task);
        tasks.extend((start..).step_by(per_task).zip(of_matrix));
    }
    parallel::each(&mut tasks, |(first, task)| match s.of_columns {
        true => columns(x, *first, task, s, pieces, counted),
        false => {
            for row in *first..*first + task.len() {
                task.prepare(&x[s.row_at(row)..][..s.k], s.piece);
            }
        }
    });
}

/// Writes for each row of `x`, \[rows, width\], the exponent of zeros where it is zeros alone, else 0.
pub(super) fn counted_rows(x: &[f32], counted: &mut [f32], width: usize) {
    /// Rows of a task.
    const ROWS: usize = 64;
    let counted: &mut [i32] = cast_slice_mut(counted);
    let tasks = (read(x, ROWS * width), write(counted, ROWS));
    parallel::for_each(tasks, |_, (x, counted)| {
        for (row, counted) in x.chunks(width.max(1)).zip(counted) {
            *counted = if top(row) == 0 { EXPONENT_OF_ZEROS } else { 0 };
        }
    });
}

fn columns(
    x: &[f32],
    first: usize,
    task: &mut DigitRows<'_>,
    s: &Preparation,
    pieces: &[Piece],
    counted: Option<(&[i32], usize)>,
) {
    let columns = s.columns();
    let (matrix, first, width) = (first / columns, first % columns, task.len());
    let row = |i: usize| &x[matrix * s.stride + i * columns + first..][..width];
    let [upper, lower] = &mut task.planes;
    for (number, piece) in pieces.iter().enumerate() {
        let terms = piece.rows.clone();
        let mut tops = [0; SIDE];
        let counts = |i: &usize| {
            counted.is_none_or(|(exponents, pieces)| {
                let of_row = &exponents[(matrix * s.k + i) * pieces..][..pieces];
                of_row.iter().any(|e| *e != EXPONENT_OF_ZEROS)
            })
        };
        let mut entering = terms.clone().filter(counts);
        while let Some(i) = entering.next() {
            // Where there is no fourth row, the first takes its place.
            let [b, c, d] = [0; 3].map(|_| entering.next().unwrap_or(i));
            larger([i, b, c, d].map(row), &mut tops);
        }
        let mut scales = [[0.0; SIDE]; 2];
        for (j, top) in tops.into_iter().enumerate().take(width) {
            let exponent = row_exponent(top, s.n_digits);
            task.exponents[j * pieces.len() + number] = exponent;
            [scales[0][j], scales[1][j]] = factors(exponent);
        }
        for start in terms.clone().step_by(SIDE) {
            // Rows behind the last are zeros, as a row of digits is filled up with.
            let rows = SIDE.min(terms.end - start);
            let mut quads = [[[0; SIDE]; SIDE / 4]; 2];
            let [uppers, lowers] = &mut quads;
            for (quad, (upper, lower)) in uppers.iter_mut().zip(lowers).enumerate() {
                let mut four = [[0; SIDE]; 4];
                for (i, integers_of) in (4 * quad..rows).zip(&mut four) {
                    integers(row(start + i), &scales, integers_of);
                }
                words(&four, upper, lower);
            }
            let to = piece.to + (start - terms.start);
            let all = width * s.padded();
            for (quads, plane) in quads.iter().zip([&mut upper[..], &mut lower[..all]]) {
                put_columns(quads, to, s.padded(), plane);
            }
        }
    }
}

/// Stores the words of columns, four rows of digits each, at place `start` of the columns' rows in a plane. A row's words go
/// there together: rows are often a multiple of a KiB apart, and would push each other out of the cache.
fn put_columns(quads: &[[u32; SIDE]; SIDE / 4], start: usize, padded: usize, plane: &mut [i8]) {
    let mut transposed = [0; SIDE * SIDE / 4];
    let columns = quads.each_ref().map(|words| cast_slice(words));
    transpose_columns(simd_level(), columns, 0, [16 * 16, 16], &mut transposed);
    let rows = transposed.chunks_exact(SIDE / 4);
    for (words, digits) in rows.zip(plane.chunks_exact_mut(padded)) {
        digits[start..start + SIDE].copy_from_slice(cast_slice(words));
    }
}

multiversion! {
    /// The upper and the lower digits of four rows, a word of each column.
    fn words(rows: &[[i32; SIDE]; 4], upper: &mut [u32; SIDE], lower: &mut [u32; SIDE]) {
        let [a, b, c, d] = rows;
        let word = |q: [i32; 4]| {
            let [a, b, c, d] = q.map(|q| q as u32 & 0xff);
            a | b << 8 | c << 16 | d << 24
        };
        for j in 0..SIDE {
            let q = [a[j], b[j], c[j], d[j]];
            upper[j] = word(q.map(|q| (q + 128) >> 8));
            lower[j] = word(q);
        }
    }

    fn larger(rows: [&[f32]; 4], tops: &mut [u32]) {
        let [a, b, c, d] = rows;
        for ((((top, a), b), c), d) in tops.iter_mut().zip(a).zip(b).zip(c).zip(d) {
            let [a, b, c, d] = [a, b, c, d].map(|x| magnitude(*x));
            *top = (*top).max(a.max(b)).max(c.max(d));
        }
    }

    fn integers<A>(x: &[f32], scales: &[[f32; SIDE]; 2], to: &mut [i32]) {
        for (((to, x), first), second) in to.iter_mut().zip(x).zip(&scales[0]).zip(&scales[1]) {
            *to = quantised::<A>(*x, [*first, *second]);
        }
    }
}
