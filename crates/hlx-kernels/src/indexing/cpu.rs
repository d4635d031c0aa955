//! The CPU twins of indexing.

use bytemuck::Pod;
use hlx_core::{DType, arith};
use rayon::prelude::*;

use super::scatter::Addition;
use super::{NO_BAD_INDEX, Picks};
use crate::element::gather as gather_words;
use crate::layout::Walk;
use crate::map::CHUNK;
use crate::terms::{Dims, PIECE};

/// The place of an index out of range.
const NO_TARGET: u32 = u32::MAX;

/// Calls `run(first element, place of each layout, count)` for the runs along the innermost
/// dimension that make up the `count` elements from `begin` on, in order.
pub(super) fn runs(
    walk: &Walk,
    begin: usize,
    count: usize,
    mut run: impl FnMut(usize, [usize; 2], usize),
) {
    let extent = walk.shape.last().copied().unwrap_or(1);
    let (mut number, end) = (begin, begin + count);
    while number < end {
        let length = (extent - number % extent).min(end - number);
        let mut places = [walk.offsets[0], walk.offsets[1]];
        let mut rest = number;
        for (d, &extent) in walk.shape.iter().enumerate().rev() {
            let at = (rest % extent) as isize;
            for (place, strides) in places.iter_mut().zip(&walk.strides) {
                *place = place.wrapping_add_signed(at * strides[d]);
            }
            rest /= extent;
        }
        run(number, places, length);
        number += length;
    }
}

/// The strides of both layouts along the innermost dimension.
pub(super) fn steps(walk: &Walk) -> [isize; 2] {
    [0, 1].map(|k| walk.strides[k].last().copied().unwrap_or(0))
}

/// Picks elements; `out` may be longer, and its rest becomes zero. Returns the first bad index.
pub(super) fn gather<T: Pod + Send + Sync>(
    picks: &Picks,
    x: &[T],
    index: &[u32],
    out: &mut [T],
) -> u32 {
    let (out, spare) = out.split_at_mut(picks.count);
    spare.fill(T::zeroed());
    let tasks = out.par_chunks_mut(CHUNK).enumerate();
    let bad = tasks.map(|(task, out)| {
        let first = task * CHUNK;
        let mut bad = NO_BAD_INDEX;
        runs(&picks.walk, first, out.len(), |number, places, count| {
            let slots = &mut out[number - first..][..count];
            if let Some(at) = gather_run(picks, x, index, places, slots) {
                bad = bad.min((number + at) as u32);
            }
        });
        bad
    });
    bad.min().unwrap_or(NO_BAD_INDEX)
}

/// Picks the elements of a run; returns the place of its first bad index.
fn gather_run<T: Pod>(
    picks: &Picks,
    x: &[T],
    index: &[u32],
    [place, at]: [usize; 2],
    slots: &mut [T],
) -> Option<usize> {
    let [x_step, index_step] = steps(&picks.walk);
    let (n, axis_stride) = (picks.n, picks.axis_stride as usize);
    let pick = |i: usize, slot: &mut T, row: u32, x_step: usize| {
        let row = row as usize;
        if row < n {
            let along = row.wrapping_mul(axis_stride);
            let line = place.wrapping_add(i.wrapping_mul(x_step));
            *slot = x[line.wrapping_add(along)];
            return true;
        }
        *slot = T::zeroed();
        false
    };
    // The usual steps are constants of their loops.
    let mut bad = None;
    match (x_step, index_step) {
        (1, 0) if (index[at] as usize) < n => {
            let along = (index[at] as usize).wrapping_mul(axis_stride);
            slots.copy_from_slice(&x[place.wrapping_add(along)..][..slots.len()]);
        }
        (0, 1) if axis_stride == 1 && place.checked_add(n).is_some_and(|end| end <= x.len()) => {
            let line = &x[place..][..n];
            for (i, (slot, row)) in slots.iter_mut().zip(&index[at..]).enumerate() {
                *slot = line.get(*row as usize).copied().unwrap_or_else(|| {
                    bad = bad.or(Some(i));
                    T::zeroed()
                });
            }
        }
        (0 | 1, 1) => {
            for (i, (slot, row)) in slots.iter_mut().zip(&index[at..]).enumerate() {
                if !pick(i, slot, *row, x_step as usize) && bad.is_none() {
                    bad = Some(i);
                }
            }
        }
        _ => {
            for (i, slot) in slots.iter_mut().enumerate() {
                let row = index[at.wrapping_add(i.wrapping_mul(index_step as usize))];
                if !pick(i, slot, row, x_step as usize) && bad.is_none() {
                    bad = Some(i);
                }
            }
        }
    }
    bad
}

/// Writes each index's place, or [`NO_TARGET`]. Returns the first bad index.
pub(super) fn targets(picks: &Picks, index: &[u32], out: &mut [u32]) -> u32 {
    let [x_step, index_step] = steps(&picks.walk);
    let tasks = out.par_chunks_mut(CHUNK).enumerate();
    let bad = tasks.map(|(task, out)| {
        let first = task * CHUNK;
        let mut bad = NO_BAD_INDEX;
        runs(
            &picks.walk,
            first,
            out.len(),
            |number, [place, at], count| {
                let slots = &mut out[number - first..][..count];
                for (i, slot) in slots.iter_mut().enumerate() {
                    let row = index[at.wrapping_add_signed(i as isize * index_step)] as usize;
                    let line = place.wrapping_add_signed(i as isize * x_step);
                    *slot = NO_TARGET;
                    if row < picks.n {
                        *slot = line.wrapping_add_signed(row as isize * picks.axis_stride) as u32;
                    } else {
                        bad = bad.min((number + i) as u32);
                    }
                }
            },
        );
        bad
    });
    bad.min().unwrap_or(NO_BAD_INDEX)
}

/// Writes to each place the number + 1 of the last index that chooses it, or 0. Every task owns a
/// range of places and walks over all indices. Returns the first bad index.
pub(super) fn winners(picks: &Picks, index: &[u32], out: &mut [u32]) -> u32 {
    let mut chosen = vec![0; picks.count];
    let bad = targets(picks, index, &mut chosen);
    let range = out.len().div_ceil(rayon::current_num_threads());
    let tasks = out.par_chunks_mut(range).enumerate();
    tasks.for_each(|(task, out)| {
        out.fill(0);
        for (number, place) in chosen.iter().enumerate() {
            let at = (*place as usize).wrapping_sub(task * range);
            if let Some(winner) = out.get_mut(at) {
                *winner = number as u32 + 1;
            }
        }
    });
    bad
}

/// Copies each place's winner from the source; `target` may have spare elements at its end.
pub(super) fn scatter<T: Pod + Send + Sync>(
    (dims, first): (&Dims, usize),
    source: &[T],
    winners: &[u32],
    target: &mut [T],
) {
    let tasks = target.par_chunks_mut(CHUNK).zip(winners.par_chunks(CHUNK));
    tasks.for_each(|(target, winners)| {
        for (slot, &winner) in target.iter_mut().zip(winners) {
            if winner > 0 {
                *slot = source[first.wrapping_add_signed(dims.place(winner as usize - 1))];
            }
        }
    });
}

/// Adds contributions to their targets in order. Every task owns a range of targets and walks over
/// all keys.
pub(super) fn add(addition: &Addition, keys: &[u32], source: &[u32], target: &mut [u32]) {
    let (n, inner) = (addition.n, addition.inner);
    let range = n.div_ceil(rayon::current_num_threads());
    let blocks = target.par_chunks_mut(n * inner).enumerate();
    blocks.for_each(|(outer, block)| {
        let tasks = block.par_chunks_mut(range * inner).enumerate();
        tasks.for_each(|(task, totals)| {
            let first_key = task * range;
            let mut chains = Chains::new(addition.float, inner, totals);
            if addition.by_position {
                add_singles(addition, keys, source, first_key, &mut chains);
                chains.finish();
                return;
            }
            let mut scratch = Vec::new();
            for (position, key) in keys.iter().enumerate() {
                let at = (*key as usize).wrapping_sub(first_key);
                if at < chains.counts.len() {
                    let words = contribution(addition, source, position, outer, &mut scratch);
                    chains.add(at, words);
                }
            }
            chains.finish();
        });
    });
}

/// Adds contributions of one element each.
fn add_singles(
    addition: &Addition,
    keys: &[u32],
    source: &[u32],
    first_key: usize,
    chains: &mut Chains<'_>,
) {
    let (_, stride) = addition.dims.innermost();
    let mut position = 0;
    addition.dims.runs(0, keys.len(), |place, count| {
        let mut from = addition.first.wrapping_add_signed(place);
        for key in &keys[position..position + count] {
            let at = (*key as usize).wrapping_sub(first_key);
            if at < chains.counts.len() {
                chains.add_one(at, source[from]);
            }
            from = from.wrapping_add_signed(stride);
        }
        position += count;
    });
}

/// The words of a contribution to the lines of a block, in place where they lie side by side.
fn contribution<'a>(
    addition: &Addition,
    source: &'a [u32],
    position: usize,
    outer: usize,
    scratch: &'a mut Vec<u32>,
) -> &'a [u32] {
    let (dims, inner) = (&addition.dims, addition.inner);
    let base = addition
        .first
        .wrapping_add_signed(position as isize * addition.axis_stride);
    let (extent, stride) = dims.innermost();
    if stride == 1 && extent.is_multiple_of(inner) {
        return &source[base.wrapping_add_signed(dims.place(outer * inner))..][..inner];
    }
    scratch.resize(inner, 0);
    let mut filled = 0;
    dims.runs(outer * inner, inner, |place, count| {
        let run = &mut scratch[filled..][..count];
        gather_words(
            DType::U32,
            source,
            base.wrapping_add_signed(place),
            stride,
            run,
        );
        filled += count;
    });
    scratch
}

/// The chains of a range of targets, `inner` elements each.
///
/// A target's first piece goes on in its place; turning -0 into +0 after every addition gives the chain
/// that does it at its end.
pub(super) struct Chains<'a> {
    float: bool,
    inner: usize,
    /// The stored values, the first piece under way, then the finished pieces.
    totals: &'a mut [u32],
    /// Every later piece under way; empty as long as there is none.
    pieces: Vec<u32>,
    /// Contributions so far.
    counts: Vec<u32>,
}

impl<'a> Chains<'a> {
    pub(super) fn new(float: bool, inner: usize, totals: &'a mut [u32]) -> Self {
        Self {
            float,
            inner,
            pieces: Vec::new(),
            counts: vec![0; totals.len() / inner],
            totals,
        }
    }

    fn add(&mut self, at: usize, words: &[u32]) {
        let row = at * self.inner..(at + 1) * self.inner;
        let count = self.counts[at];
        self.counts[at] = count + 1;
        if count < ONE_PIECE {
            add_row(self.float, words, &mut self.totals[row]);
            return;
        }
        self.pieces.resize(self.totals.len(), 0);
        if count.is_multiple_of(ONE_PIECE) {
            if count > ONE_PIECE {
                self.end_piece(at);
            }
            self.pieces[row.clone()].fill(0);
        }
        add_row(self.float, words, &mut self.pieces[row]);
    }

    /// [`Chains::add`] for contributions of one element.
    #[inline]
    pub(super) fn add_one(&mut self, at: usize, word: u32) {
        let count = self.counts[at];
        if count >= ONE_PIECE {
            self.add(at, &[word]);
            return;
        }
        self.totals[at] = sum_of(self.float, self.totals[at], word);
        self.counts[at] = count + 1;
    }

    /// Adds a piece that is not the first to the total.
    fn end_piece(&mut self, at: usize) {
        let row = at * self.inner..(at + 1) * self.inner;
        add_row(self.float, &self.pieces[row.clone()], &mut self.totals[row]);
    }

    pub(super) fn finish(mut self) {
        for at in 0..self.counts.len() {
            if self.counts[at] > ONE_PIECE {
                self.end_piece(at);
            }
        }
    }
}

/// Contributions of a target that has one piece.
const ONE_PIECE: u32 = PIECE as u32;

#[inline(always)]
fn sum_of(float: bool, a: u32, b: u32) -> u32 {
    match float {
        true => arith::pos0(f32::from_bits(a) + f32::from_bits(b)).to_bits(),
        false => a.wrapping_add(b),
    }
}

multiversion! {
    fn add_row(float: bool, words: &[u32], totals: &mut [u32]) {
        // Two loops, each without a branch.
        if float {
            for (total, word) in totals.iter_mut().zip(words) {
                *total = sum_of(true, *total, *word);
            }
        } else {
            for (total, word) in totals.iter_mut().zip(words) {
                *total = sum_of(false, *total, *word);
            }
        }
    }
}
