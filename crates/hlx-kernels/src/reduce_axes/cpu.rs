//! The CPU twin of one sweep: rows of terms for inner axes, tiles of results for outer ones.
//!
//! Float sums and products have the 128 lanes. Integer sums and products wrap, and maxima select,
//! so their result shows no order and one accumulator will do.

use std::ops::Range;

use bytemuck::cast_slice;
use hlx_core::DType;

use super::sweep::{Fold, Term};
use crate::element::flipped_key_of_float;
use crate::join::Join;
use crate::lanes::{self, LANES};
use crate::map::CHUNK;
use crate::parallel::{self, write};
use crate::terms::{PIECE, Terms};

/// Words of a tile's lanes: 128 KiB, which stay in a core's second cache.
const TILE_WORDS: usize = 1 << 15;

/// The most results of a tile.
const TILE: usize = 4096;

/// Terms up to which a tile of results is faster than one result after the other, for inner axes too
/// (AMD EPYC, sums of 4: 268 ms by rows for 16 million terms).
const SHORT: usize = 64;

/// Runs `$body` with a sweep's `$term` (a word as it is joined) and `$join`, both known when
/// compiled.
macro_rules! with_steps {
    ($fold:ident, $ops:ident, |$term:ident, $join:ident| $body:expr) => {{
        let fold = $fold;
        let add = |a: u32, b: u32| (f32::from_bits(a) + f32::from_bits(b)).to_bits();
        let mul = |a: u32, b: u32| $ops::mul(f32::from_bits(a), f32::from_bits(b)).to_bits();
        let word = |word: u32| word;
        let (flip, mask, magnitude) = (fold.flip, fold.mask(), fold.magnitude());
        match (fold.join, fold.term) {
            (Join::AddFloat, Term::Square) => {
                with_steps!(@run $term (|x: u32| mul(x, x)), $join add, $body)
            }
            (Join::AddFloat, _) => with_steps!(@run $term word, $join add, $body),
            (Join::MulFloat, _) => with_steps!(@run $term word, $join mul, $body),
            (Join::Add, Term::Square) => {
                with_steps!(@run $term (|x: u32| x.wrapping_mul(x)), $join u32::wrapping_add, $body)
            }
            (Join::Add, _) => with_steps!(@run $term word, $join u32::wrapping_add, $body),
            (Join::Mul, _) => with_steps!(@run $term word, $join u32::wrapping_mul, $body),
            (Join::Max, Term::Key) if fold.dtype.is_float() => {
                let key = |x: u32| flipped_key_of_float(x, flip);
                with_steps!(@run $term key, $join u32::max, $body)
            }
            (Join::Max, Term::Key) => {
                with_steps!(@run $term (|x: u32| x ^ mask), $join u32::max, $body)
            }
            (Join::Max, Term::NotZero) => {
                with_steps!(@run $term (|x: u32| u32::from(x & magnitude != 0)), $join u32::max, $body)
            }
            (Join::Max, Term::Zero) => {
                with_steps!(@run $term (|x: u32| u32::from(x & magnitude == 0)), $join u32::max, $body)
            }
            (Join::Max, _) => with_steps!(@run $term word, $join u32::max, $body),
        }
    }};
    (@run $term:ident $a:expr, $join:ident $b:expr, $body:expr) => {{
        let ($term, $join) = ($a, $b);
        $body
    }};
}

/// Computes a sweep: `out` has an element an item.
pub(super) fn words(terms: &Terms, fold: Fold, x: &[u32], out: &mut [u32]) {
    if by_rows(terms) {
        let a_task = items_a_task(terms);
        parallel::for_each(write(out, a_task), |task, out| {
            for (item, slot) in (task * a_task..).zip(out) {
                let (result, piece) = item_of(terms, item);
                let total = |row: &[u32]| fold_row(fold, row);
                *slot = fold.stored(terms.with_result(fold.dtype, x, result, piece, total));
            }
        });
        return;
    }
    let n_lanes = fold.lanes().min(terms.n.next_power_of_two());
    let wide = (TILE_WORDS / n_lanes).min(TILE);
    let tiles = parallel::tiles(out, terms.n_results, wide);
    parallel::for_each(tiles, |_, (piece, result, out)| {
        let (piece, width) = (terms.piece(piece), out.len());
        let n_lanes = fold.lanes().min(piece.len().next_power_of_two());
        let tile = Tile { result, width };
        let copied = tile.copied_words(terms, fold.dtype, piece.len());
        parallel::scratch(n_lanes * width + copied, |words: &mut [u32]| {
            let (lanes, rows) = words.split_at_mut(n_lanes * width);
            lanes.fill(fold.join.nothing());
            tile.each(terms, fold.dtype, x, piece, rows, |x, at, rows| {
                fold_rows(fold, x, at, rows, width, lanes);
            });
            fold_lanes(fold, width, lanes);
            for (slot, total) in out.iter_mut().zip(lanes) {
                *slot = fold.stored(*total);
            }
        });
    });
}

/// Computes a sweep over places: of `x`, or of keys with `places` beside them. The keys of the
/// results are left out where nobody takes them.
pub(super) fn places(
    terms: &Terms,
    fold: Fold,
    x: &[u32],
    places: Option<&[u32]>,
    keys: Option<&mut [u32]>,
    out: &mut [u32],
) {
    // Keys are made of terms; those of an earlier sweep are taken as they are.
    let (term, dtype) = match places {
        Some(_) => (Term::Word, DType::U32),
        None => (Term::Key, fold.dtype),
    };
    let fold = Fold {
        term,
        dtype,
        ..fold
    };
    let place_of = |result: usize, row: usize| match places {
        Some(places) => places[terms.place(result, row)],
        None => (terms.origin + row) as u32,
    };
    let mut unused = vec![0; if keys.is_some() { 0 } else { out.len() }];
    let keys = keys.unwrap_or(&mut unused);
    if by_rows(terms) {
        let a_task = items_a_task(terms);
        let slots = (write(keys, a_task), write(out, a_task));
        parallel::for_each(slots, |task, (keys, out)| {
            for (item, (key, slot)) in (task * a_task..).zip(keys.iter_mut().zip(out)) {
                let (result, piece) = item_of(terms, item);
                let begin = piece.start;
                let of_row = |row: &[u32]| largest_of_row(fold, row);
                let (largest, at) = terms.with_result(dtype, x, result, piece, of_row);
                (*key, *slot) = (largest, place_of(result, begin + at));
            }
        });
        return;
    }
    let results = terms.n_results;
    let tiles = (
        parallel::tiles(keys, results, TILE),
        parallel::tiles(out, results, TILE),
    );
    parallel::for_each(tiles, |_, ((piece, result, keys), (.., out))| {
        let (piece, width) = (terms.piece(piece), out.len());
        let begin = piece.start;
        keys.fill(0);
        out.fill(begin as u32);
        let tile = Tile { result, width };
        let copied = tile.copied_words(terms, dtype, piece.len());
        parallel::scratch(copied, |rows| {
            tile.each(terms, dtype, x, piece, rows, |x, at, (first, rows)| {
                largest_of_rows(fold, x, at, (begin + first, rows), keys, out);
            });
        });
        for (i, slot) in out.iter_mut().enumerate() {
            *slot = place_of(result + i, *slot as usize);
        }
    });
}

/// Whether results are made one after the other. The items of a sweep with one piece a result have the
/// same numbers either way.
fn by_rows(terms: &Terms) -> bool {
    terms.along && (terms.n > SHORT || terms.n_results == 1)
}

fn items_a_task(terms: &Terms) -> usize {
    (CHUNK / terms.n.clamp(1, PIECE)).max(1)
}

/// An item's result and terms.
fn item_of(terms: &Terms, item: usize) -> (usize, Range<usize>) {
    let pieces = terms.pieces();
    (item / pieces, terms.piece(item % pieces))
}

/// Neighbouring results.
#[derive(Clone, Copy)]
struct Tile {
    result: usize,
    width: usize,
}

impl Tile {
    /// The words to which [`Tile::each`] copies rows of a piece of `n` terms.
    fn copied_words(self, terms: &Terms, dtype: DType, n: usize) -> usize {
        match terms.side_by_side(dtype, self.result, self.width) {
            true => 0,
            false => LANES.min(n) * self.width,
        }
    }

    /// Calls `body(words, (first place, distance of rows), (first row, rows))` for the rows of the terms of
    /// `piece`; the words of a row lie side by side, widened. Rows count from 0.
    fn each(
        self,
        terms: &Terms,
        dtype: DType,
        x: &[u32],
        piece: Range<usize>,
        copies: &mut [u32],
        mut body: impl FnMut(&[u32], (usize, isize), (usize, usize)),
    ) {
        if terms.side_by_side(dtype, self.result, self.width) {
            let (base, [stride]) = (terms.place(self.result, 0), terms.reduced.steps());
            let (reduced, count) = (&terms.reduced, piece.len());
            return reduced.runs(piece.start, count, |done, [place], rows| {
                body(x, (base.wrapping_add(place), stride), (done, rows));
            });
        }
        for done in (0..piece.len()).step_by(LANES) {
            let rows = LANES.min(piece.len() - done);
            let copies = &mut copies[..rows * self.width];
            for (row, words) in (piece.start + done..).zip(copies.chunks_exact_mut(self.width)) {
                terms.of_term(dtype, x, row, self.result, words);
            }
            body(copies, (0, self.width as isize), (done, rows));
        }
    }
}

/// Joins words whose order does not show, 128 at a time.
#[inline(always)]
fn fold_words(
    row: &[u32],
    nothing: u32,
    term: impl Fn(u32) -> u32,
    join: impl Fn(u32, u32) -> u32,
) -> u32 {
    let mut lanes = [nothing; LANES];
    let (blocks, tail) = row.as_chunks::<LANES>();
    for block in blocks {
        for (lane, x) in lanes.iter_mut().zip(block) {
            *lane = join(*lane, term(*x));
        }
    }
    for (lane, x) in lanes.iter_mut().zip(tail) {
        *lane = join(*lane, term(*x));
    }
    lanes.into_iter().fold(nothing, join)
}

multiversion! {
    fn fold_row<A>(fold: Fold, row: &[u32]) -> u32 {
        let floats: &[f32] = cast_slice(row);
        match (fold.join, fold.term) {
            (Join::AddFloat, Term::Square) => lanes::sum([floats], |[x]| A::mul(x, x)).to_bits(),
            (Join::AddFloat, _) => lanes::sum([floats], |[x]| x).to_bits(),
            (Join::MulFloat, _) => lanes::fold(floats, 1.0, A::mul).to_bits(),
            (kind, _) => with_steps!(fold, A, |term, join| {
                fold_words(row, kind.nothing(), term, join)
            }),
        }
    }

    // Adds rows to the lanes: row `i` to lane `i` modulo their number.
    fn fold_rows<A>(
        fold: Fold,
        x: &[u32],
        at: (usize, isize),
        rows: (usize, usize),
        width: usize,
        lanes: &mut [u32],
    ) {
        let n_lanes = lanes.len() / width;
        with_steps!(fold, A, |term, join| {
            for i in 0..rows.1 {
                let lane = (rows.0 + i) % n_lanes * width;
                let row = &x[at.0.wrapping_add_signed(i as isize * at.1)..][..width];
                for (lane, x) in lanes[lane..lane + width].iter_mut().zip(row) {
                    *lane = join(*lane, term(*x));
                }
            }
        });
    }

    // The tree by halves; the first lane then has the totals.
    fn fold_lanes<A>(fold: Fold, width: usize, lanes: &mut [u32]) {
        let mut half = lanes.len() / 2;
        while half >= width {
            let (low, high) = lanes[..2 * half].split_at_mut(half);
            with_steps!(fold, A, |_term, join| {
                for (low, high) in low.iter_mut().zip(high.iter()) {
                    *low = join(*low, *high);
                }
            });
            half /= 2;
        }
    }

    // The largest key of a row and where it is first.
    fn largest_of_row<A>(fold: Fold, row: &[u32]) -> (u32, usize) {
        with_steps!(fold, A, |term, join| {
            let largest = fold_words(row, 0, term, join);
            let is_largest = |x: &u32| term(*x) == largest;
            // Blocks without a branch, and then the one that has it.
            let has_it = |block: &[u32]| block.iter().fold(false, |any, x| any | is_largest(x));
            let block = row.chunks(LANES).position(has_it).unwrap_or(0) * LANES;
            let first = row[block..].iter().position(is_largest).unwrap_or(0);
            (largest, block + first)
        })
    }

    // The largest key of each column and the first row that has it.
    fn largest_of_rows<A>(
        fold: Fold,
        x: &[u32],
        at: (usize, isize),
        rows: (usize, usize),
        keys: &mut [u32],
        places: &mut [u32],
    ) {
        with_steps!(fold, A, |term, _join| {
            for i in 0..rows.1 {
                let row = &x[at.0.wrapping_add_signed(i as isize * at.1)..][..keys.len()];
                let number = (rows.0 + i) as u32;
                for ((key, place), x) in keys.iter_mut().zip(places.iter_mut()).zip(row) {
                    let found = term(*x);
                    let larger = found > *key;
                    *key = if larger { found } else { *key };
                    *place = if larger { number } else { *place };
                }
            }
        });
    }
}
