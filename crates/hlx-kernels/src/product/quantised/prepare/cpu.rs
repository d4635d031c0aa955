//! Preparation on the CPU: rows, or blocks of columns that read whole cache lines, in parallel.

use std::ops::Range;

use bytemuck::{cast_slice, cast_slice_mut};
use hlx_core::cpu::simd_level;
use hlx_core::multiversion;
use rayon::prelude::*;

use super::super::PIECE;
use super::super::law::{
    EXPONENT_OF_ZEROS, NO_EXPONENT, Width, magnitude, quantised, row_exponent, scale,
};
use super::super::turn::turn;
use super::Preparation;

/// Columns of a block, and rows that turn at a time.
const SIDE: usize = 64;

/// The rows of a task: their digits by planes, and their exponents.
struct Task<'a> {
    first: usize,
    planes: [&'a mut [i8]; 2],
    exponents: &'a mut [i32],
}

/// A piece of the columns: the matrix's rows that are its terms, and where its digits begin.
pub(super) struct Piece {
    pub rows: Range<usize>,
    pub to: usize,
}

impl Piece {
    fn of(piece: usize, s: &Preparation) -> Self {
        let to = piece * s.piece;
        Self {
            rows: to..s.k.min(to + s.piece),
            to,
        }
    }
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
    let pieces: Vec<Piece> = (0..s.pieces()).map(|piece| Piece::of(piece, s)).collect();
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
    let digits: &mut [i8] = &mut cast_slice_mut(digits)[..s.digits_len()];
    let exponents: &mut [i32] = &mut cast_slice_mut(exponents)[..s.rows * pieces.len()];
    let (upper, lower) = match s.width {
        Width::Wide => digits.split_at_mut(s.rows * s.padded()),
        Width::Narrow => (&mut [][..], digits),
    };
    // Blocks of columns of each matrix, or rows of about as many numbers.
    let matrix = if s.of_columns { s.columns() } else { s.rows };
    let per_task = match s.of_columns {
        true => SIDE,
        false => (4 * PIECE).div_ceil(s.padded().max(1)),
    };
    let mut tasks = Vec::new();
    let (mut upper, mut lower, mut exponents) = (upper, lower, exponents);
    for start in (0..s.rows).step_by(matrix.max(1)) {
        for first in (start..start + matrix).step_by(per_task) {
            let rows = per_task.min(start + matrix - first);
            let of_upper = (rows * s.padded()).min(upper.len());
            tasks.push(Task {
                first,
                planes: [
                    upper.split_off_mut(..of_upper).unwrap_or_default(),
                    lower.split_off_mut(..rows * s.padded()).unwrap_or_default(),
                ],
                exponents: exponents
                    .split_off_mut(..rows * pieces.len())
                    .unwrap_or_default(),
            });
        }
    }
    tasks.into_par_iter().for_each(|task| match s.of_columns {
        true => columns(x, task, s, pieces, counted),
        false => rows(x, task, s),
    });
}

fn rows(x: &[f32], task: Task<'_>, s: &Preparation) {
    let [mut upper, mut lower] = task.planes;
    for (row, exponents) in task.exponents.chunks_mut(s.pieces()).enumerate() {
        let x = &x[s.row_at(task.first + row)..][..s.k];
        let of_upper = s.padded().min(upper.len());
        let planes = [
            upper.split_off_mut(..of_upper),
            lower.split_off_mut(..s.padded()),
        ];
        let [upper, lower] = planes.map(Option::unwrap_or_default);
        for (piece, exponent) in exponents.iter_mut().enumerate() {
            let terms = piece * s.piece..s.k.min((piece + 1) * s.piece);
            let upper = upper.get_mut(terms.clone()).unwrap_or_default();
            *exponent = prepare_piece(&x[terms.clone()], upper, &mut lower[terms]);
        }
        upper.iter_mut().skip(s.k).for_each(|digit| *digit = 0);
        lower[s.k..].fill(0);
    }
}

/// Writes the digits of a row of one piece, zeros behind them, and returns its exponent; a row without upper digits is narrow.
pub fn prepare_row(x: &[f32], upper: &mut [i8], lower: &mut [i8]) -> i32 {
    upper.iter_mut().skip(x.len()).for_each(|digit| *digit = 0);
    lower[x.len()..].fill(0);
    let upper = upper.get_mut(..x.len()).unwrap_or_default();
    prepare_piece(x, upper, &mut lower[..x.len()])
}

fn prepare_piece(x: &[f32], upper: &mut [i8], lower: &mut [i8]) -> i32 {
    let width = if upper.is_empty() {
        Width::Narrow
    } else {
        Width::Wide
    };
    let exponent = row_exponent(top(x), width);
    let factors = factors(exponent);
    match width {
        Width::Wide => wide_digits(x, factors, upper, lower),
        Width::Narrow => narrow_digits(x, factors, lower),
    }
    exponent
}

/// Writes for each row of `x`, \[rows, width\], the exponent of zeros where it is zeros alone, else 0.
pub(super) fn counted_rows(x: &[f32], counted: &mut [f32], width: usize) {
    let counted: &mut [i32] = cast_slice_mut(counted);
    let rows = x.par_chunks(width.max(1)).zip(counted.par_iter_mut());
    rows.with_min_len(64)
        .for_each(|(row, counted)| *counted = if top(row) == 0 { EXPONENT_OF_ZEROS } else { 0 });
}

fn columns(
    x: &[f32],
    task: Task<'_>,
    s: &Preparation,
    pieces: &[Piece],
    counted: Option<(&[i32], usize)>,
) {
    let columns = s.columns();
    let (matrix, first) = (task.first / columns, task.first % columns);
    let width = task.exponents.len() / pieces.len();
    let row = |i: usize| &x[matrix * s.stride + i * columns + first..][..width];
    let [upper, lower] = task.planes;
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
            // Of a fourth row that there is not, the first takes the place.
            let [b, c, d] = [0; 3].map(|_| entering.next().unwrap_or(i));
            larger([i, b, c, d].map(row), &mut tops);
        }
        let mut scales = [[0.0; SIDE]; 2];
        for (j, top) in tops.into_iter().enumerate().take(width) {
            let exponent = row_exponent(top, s.width);
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
    turn(simd_level(), columns, 0, [16 * 16, 16], &mut transposed);
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
}

/// 2^e as two factors; zeros of a piece without an exponent, whose digits are zeros.
fn factors(exponent: i32) -> [f32; 2] {
    match exponent {
        NO_EXPONENT => [0.0; 2],
        e => scale(e),
    }
}

/// Numbers that a loop takes at a time.
const LANES: usize = 32;

multiversion! {
    fn top(x: &[f32]) -> u32 {
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
}

multiversion! {
    fn larger(rows: [&[f32]; 4], tops: &mut [u32]) {
        let [a, b, c, d] = rows;
        for ((((top, a), b), c), d) in tops.iter_mut().zip(a).zip(b).zip(c).zip(d) {
            let [a, b, c, d] = [a, b, c, d].map(|x| magnitude(*x));
            *top = (*top).max(a.max(b)).max(c.max(d));
        }
    }
}

multiversion! {
    fn wide_digits<A>(x: &[f32], factors: [f32; 2], upper: &mut [i8], lower: &mut [i8]) {
        let (whole, rest) = x.as_chunks::<LANES>();
        let (uppers, upper) = upper.as_chunks_mut::<LANES>();
        let (lowers, lower) = lower.as_chunks_mut::<LANES>();
        for ((x, upper), lower) in whole.iter().zip(uppers).zip(lowers) {
            let mut integers = [0; LANES];
            for (q, x) in integers.iter_mut().zip(x) {
                *q = quantised::<A>(*x, factors);
            }
            for ((upper, lower), q) in upper.iter_mut().zip(lower).zip(integers) {
                *upper = ((q + 128) >> 8) as i8;
                *lower = q as i8;
            }
        }
        for ((x, upper), lower) in rest.iter().zip(upper).zip(lower) {
            let q = quantised::<A>(*x, factors);
            *upper = ((q + 128) >> 8) as i8;
            *lower = q as i8;
        }
    }
}

multiversion! {
    fn narrow_digits<A>(x: &[f32], factors: [f32; 2], lower: &mut [i8]) {
        let (whole, rest) = x.as_chunks::<LANES>();
        let (lowers, lower) = lower.as_chunks_mut::<LANES>();
        for (x, lower) in whole.iter().zip(lowers) {
            let mut integers = [0; LANES];
            for (q, x) in integers.iter_mut().zip(x) {
                *q = quantised::<A>(*x, factors);
            }
            for (lower, q) in lower.iter_mut().zip(integers) {
                *lower = q as i8;
            }
        }
        for (x, lower) in rest.iter().zip(lower) {
            *lower = quantised::<A>(*x, factors) as i8;
        }
    }
}

multiversion! {
    fn integers<A>(x: &[f32], scales: &[[f32; SIDE]; 2], to: &mut [i32]) {
        for (((to, x), first), second) in to.iter_mut().zip(x).zip(&scales[0]).zip(&scales[1]) {
            *to = quantised::<A>(*x, [*first, *second]);
        }
    }
}
