//! The CPU twin of one pass: rows of terms for inner axes, tiles of results for outer ones.
//!
//! Float sums and products keep the 128 lanes. Integer sums and products wrap, and maxima select,
//! so their result shows no order and one accumulator will do.

use std::ops::Range;

use bytemuck::cast_slice;
use hlx_core::DType;
use rayon::prelude::*;

use super::fold::{Fold, Step};
use crate::element::{gather, turned_key_of_float};
use crate::lanes::{self, LANES};
use crate::map::CHUNK;
use crate::terms::{PIECE, Terms};

/// Words of a tile's lanes: 128 KiB, which stay in a core's second cache.
const TILE_WORDS: usize = 1 << 15;

/// The most results of a tile.
const TILE: usize = 4096;

/// Terms up to which a tile of results is faster than one result after the other, for inner axes too
/// (AMD EPYC, sums of 4: 268 ms by rows for 16 million terms).
const SHORT: usize = 64;

/// Runs `$body` with a pass's `$term` (a word as it is joined) and `$join`, both known when
/// compiled.
macro_rules! with_steps {
    ($fold:ident, $ops:ident, |$term:ident, $join:ident| $body:expr) => {{
        let fold = $fold;
        let add = |a: u32, b: u32| (f32::from_bits(a) + f32::from_bits(b)).to_bits();
        let mul = |a: u32, b: u32| $ops::mul(f32::from_bits(a), f32::from_bits(b)).to_bits();
        let word = |word: u32| word;
        let (flip, mask, magnitude) = (fold.flip, fold.mask(), fold.magnitude());
        match fold.step {
            Step::SumFloat => with_steps!(@run $term word, $join add, $body),
            Step::SquaresFloat => {
                with_steps!(@run $term (|x: u32| mul(x, x)), $join add, $body)
            }
            Step::ProdFloat => with_steps!(@run $term word, $join mul, $body),
            Step::Sum => with_steps!(@run $term word, $join u32::wrapping_add, $body),
            Step::Squares => {
                with_steps!(@run $term (|x: u32| x.wrapping_mul(x)), $join u32::wrapping_add, $body)
            }
            Step::Prod => with_steps!(@run $term word, $join u32::wrapping_mul, $body),
            Step::Max => with_steps!(@run $term word, $join u32::max, $body),
            Step::MaxKey if fold.dtype.is_float() => {
                let key = |x: u32| turned_key_of_float(x, flip);
                with_steps!(@run $term key, $join u32::max, $body)
            }
            Step::MaxKey => {
                with_steps!(@run $term (|x: u32| x ^ mask), $join u32::max, $body)
            }
            Step::NotZero => {
                with_steps!(@run $term (|x: u32| u32::from(x & magnitude != 0)), $join u32::max, $body)
            }
            Step::Zero => {
                with_steps!(@run $term (|x: u32| u32::from(x & magnitude == 0)), $join u32::max, $body)
            }
        }
    }};
    (@run $term:ident $a:expr, $join:ident $b:expr, $body:expr) => {{
        let ($term, $join) = ($a, $b);
        $body
    }};
}

/// Computes a pass: `out` has an element an item.
pub(super) fn words(terms: &Terms, fold: Fold, x: &[u32], out: &mut [u32]) {
    if by_rows(terms) {
        let slots = out.par_iter_mut();
        each_row(terms, slots, |(kept, rows), scratch, slot| {
            let row = row(terms, fold.dtype, x, kept, rows, scratch);
            *slot = fold.stored(fold_row(fold, row));
        });
        return;
    }
    let pieces = out.par_chunks_mut(terms.n_results).enumerate();
    let n_lanes = fold.step.lanes().min(terms.n.next_power_of_two());
    let wide = (TILE_WORDS / n_lanes).min(TILE);
    let tiles = pieces.flat_map(|(piece, out)| {
        let tiles = out.par_chunks_mut(wide).enumerate();
        tiles.map(move |(tile, out)| (piece, tile * wide, out))
    });
    tiles.for_each_init(Scratch::default, |scratch, (piece, kept, out)| {
        let (begin, count) = terms.piece(piece);
        let width = out.len();
        let n_lanes = fold.step.lanes().min(count.next_power_of_two());
        let lanes = &mut scratch.lanes;
        lanes.clear();
        lanes.resize(n_lanes * width, fold.step.nothing());
        let tile = Tile { kept, width };
        let block = (begin, count);
        tile.each(
            terms,
            fold.dtype,
            x,
            block,
            &mut scratch.rows,
            |x, at, first, rows| {
                fold_rows(fold, x, at, (first, rows), width, lanes);
            },
        );
        fold_lanes(fold, width, lanes);
        for (slot, total) in out.iter_mut().zip(lanes.iter()) {
            *slot = fold.stored(*total);
        }
    });
}

/// Computes a pass over places: of `x`, or of keys with `places` beside them. The keys of the
/// results are left out where nobody takes them.
pub(super) fn places(
    terms: &Terms,
    fold: Fold,
    (x, places): (&[u32], Option<&[u32]>),
    (keys, out): (Option<&mut [u32]>, &mut [u32]),
) {
    // Keys are made of terms; those of an earlier pass are taken as they are.
    let (step, dtype) = match places {
        Some(_) => (Step::Max, DType::U32),
        None => (Step::MaxKey, fold.dtype),
    };
    let fold = Fold {
        step,
        dtype,
        ..fold
    };
    let place_of = |kept: usize, row: usize| match places {
        Some(places) => places[terms.place(kept, row)],
        None => (terms.origin + row) as u32,
    };
    let mut unused = vec![0; if keys.is_some() { 0 } else { out.len() }];
    let keys = keys.unwrap_or(&mut unused);
    if by_rows(terms) {
        let slots = keys.par_iter_mut().zip(out);
        each_row(terms, slots, |(kept, rows), scratch, (key, slot)| {
            let begin = rows.start;
            let row = row(terms, dtype, x, kept, rows, scratch);
            let (largest, at) = largest_of_row(fold, row);
            (*key, *slot) = (largest, place_of(kept, begin + at));
        });
        return;
    }
    let results = terms.n_results;
    let pieces = keys
        .par_chunks_mut(results)
        .zip(out.par_chunks_mut(results));
    let tiles = pieces.enumerate().flat_map(|(piece, (keys, out))| {
        let tiles = keys.par_chunks_mut(TILE).zip(out.par_chunks_mut(TILE));
        let tiles = tiles.enumerate();
        tiles.map(move |(tile, (keys, out))| (piece, tile * TILE, keys, out))
    });
    tiles.for_each_init(Scratch::default, |scratch, (piece, kept, keys, out)| {
        let (begin, count) = terms.piece(piece);
        let width = out.len();
        keys.fill(0);
        out.fill(begin as u32);
        let tile = Tile { kept, width };
        let block = (begin, count);
        tile.each(
            terms,
            dtype,
            x,
            block,
            &mut scratch.rows,
            |x, at, first, rows| {
                largest_of_rows(fold, x, at, (begin + first, rows), keys, out);
            },
        );
        for (i, slot) in out.iter_mut().enumerate() {
            *slot = place_of(kept + i, *slot as usize);
        }
    });
}

/// Whether results are made one after the other. The items of a pass with one piece a result have the
/// same numbers either way.
fn by_rows(terms: &Terms) -> bool {
    terms.along && (terms.n > SHORT || terms.n_results == 1)
}

/// Calls `body` with each item's result and rows, and its slot.
fn each_row<T: Send>(
    terms: &Terms,
    slots: impl IndexedParallelIterator<Item = T>,
    body: impl Fn((usize, Range<usize>), &mut Vec<u32>, T) + Sync,
) {
    let pieces = terms.pieces();
    let items_a_task = (CHUNK / terms.n.clamp(1, PIECE)).max(1);
    slots.enumerate().with_min_len(items_a_task).for_each_init(
        Vec::new,
        |scratch, (item, slot)| {
            let (begin, count) = terms.piece(item % pieces);
            body((item / pieces, begin..begin + count), scratch, slot);
        },
    );
}

/// The widened terms of a result, in place where they lie side by side.
fn row<'a>(
    terms: &Terms,
    dtype: DType,
    x: &'a [u32],
    kept: usize,
    rows: Range<usize>,
    scratch: &'a mut Vec<u32>,
) -> &'a [u32] {
    let base = terms.place(kept, 0);
    let (_, stride) = terms.reduced.innermost();
    if dtype.size() == 4 && terms.reduced.shape.len() <= 1 && (stride == 1 || rows.len() == 1) {
        return &x[base.wrapping_add_signed(terms.reduced.place(rows.start))..][..rows.len()];
    }
    scratch.resize(rows.len(), 0);
    let mut filled = 0;
    terms.reduced.runs(rows.start, rows.len(), |place, count| {
        let start = base.wrapping_add_signed(place);
        gather(dtype, x, start, stride, &mut scratch[filled..][..count]);
        filled += count;
    });
    scratch
}

/// A task's memory.
#[derive(Default)]
struct Scratch {
    lanes: Vec<u32>,
    rows: Vec<u32>,
}

/// Neighbouring results.
#[derive(Clone, Copy)]
struct Tile {
    kept: usize,
    width: usize,
}

impl Tile {
    /// Calls `body(words, (first place, distance of rows), first row, rows)` for the `count` rows of
    /// terms from `begin` on; the words of a row lie side by side, widened. Rows count from 0.
    fn each(
        self,
        terms: &Terms,
        dtype: DType,
        x: &[u32],
        (begin, count): (usize, usize),
        scratch: &mut Vec<u32>,
        mut body: impl FnMut(&[u32], (usize, isize), usize, usize),
    ) {
        let (extent, stride) = terms.kept.innermost();
        let one_run = self.kept % extent + self.width <= extent;
        let mut done = 0;
        if dtype.size() == 4 && stride == 1 && one_run {
            let base = terms.place(self.kept, 0);
            let (_, stride) = terms.reduced.innermost();
            terms.reduced.runs(begin, count, |place, rows| {
                body(x, (base.wrapping_add_signed(place), stride), done, rows);
                done += rows;
            });
            return;
        }
        while done < count {
            let rows = LANES.min(count - done);
            scratch.resize(rows * self.width, 0);
            let mut rest = &mut scratch[..];
            for row in begin + done..begin + done + rows {
                let base = terms.first.wrapping_add_signed(terms.reduced.place(row));
                terms.kept.runs(self.kept, self.width, |place, count| {
                    let (run, after) = std::mem::take(&mut rest).split_at_mut(count);
                    gather(dtype, x, base.wrapping_add_signed(place), stride, run);
                    rest = after;
                });
            }
            body(scratch, (0, self.width as isize), done, rows);
            done += rows;
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
        match fold.step {
            Step::SumFloat => lanes::sum([floats], |[x]| x).to_bits(),
            Step::SquaresFloat => lanes::sum([floats], |[x]| A::mul(x, x)).to_bits(),
            Step::ProdFloat => lanes::fold(floats, 1.0, A::mul).to_bits(),
            step => with_steps!(fold, A, |term, join| fold_words(row, step.nothing(), term, join)),
        }
    }
}

multiversion! {
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
}

multiversion! {
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
}

multiversion! {
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
}

multiversion! {
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
