//! The CPU twins of indexing; the last ones are those of additions: the chains of a target's contributions, in order.

use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

use bytemuck::Pod;
use hlx_core::{DType, arith};

use super::{NO_BAD_INDEX, Picks};
use crate::element::gather as widen;
use crate::layout::Walk;
use crate::map::CHUNK;
use crate::parallel::{self, read, write};
use crate::terms::PIECE;

/// The place of an index out of range.
const NO_TARGET: u32 = u32::MAX;

/// Picks elements; `out` may be longer, and its rest becomes zero. Returns the first bad index.
pub(super) fn gather<T: Pod + Send + Sync>(
    picks: &Picks,
    x: &[T],
    index: &[u32],
    out: &mut [T],
) -> u32 {
    let (out, spare) = out.split_at_mut(picks.count);
    spare.fill(T::zeroed());
    let bad = AtomicU32::new(NO_BAD_INDEX);
    parallel::for_each(write(out, CHUNK), |task, out| {
        let first = task * CHUNK;
        picks.walk.runs(first, out.len(), |done, places, count| {
            let slots = &mut out[done..done + count];
            if let Some(at) = gather_run(picks, x, index, places, slots) {
                bad.fetch_min((first + done + at) as u32, Relaxed);
            }
        });
    });
    bad.into_inner()
}

/// Picks the elements of a run; returns the place of its first bad index.
fn gather_run<T: Pod>(
    picks: &Picks,
    x: &[T],
    index: &[u32],
    [place, at]: [usize; 2],
    slots: &mut [T],
) -> Option<usize> {
    let [x_step, index_step] = picks.walk.steps();
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
    let [x_step, index_step] = picks.walk.steps();
    let bad = AtomicU32::new(NO_BAD_INDEX);
    parallel::for_each(write(out, CHUNK), |task, out| {
        let first = task * CHUNK;
        let (walk, count) = (&picks.walk, out.len());
        walk.runs(first, count, |done, [place, at], count| {
            for (i, slot) in out[done..done + count].iter_mut().enumerate() {
                let row = index[at.wrapping_add_signed(i as isize * index_step)] as usize;
                let line = place.wrapping_add_signed(i as isize * x_step);
                *slot = NO_TARGET;
                if row < picks.n {
                    *slot = line.wrapping_add_signed(row as isize * picks.axis_stride) as u32;
                } else {
                    bad.fetch_min((first + done + i) as u32, Relaxed);
                }
            }
        });
    });
    bad.into_inner()
}

/// Writes to each place the number + 1 of the last index that chooses it, or 0. Every task owns a
/// range of places and walks over all indices. Returns the first bad index.
pub(super) fn winners(picks: &Picks, index: &[u32], out: &mut [u32]) -> u32 {
    let mut chosen = vec![0; picks.count];
    let bad = targets(picks, index, &mut chosen);
    let range = out.len().div_ceil(hlx_core::cpu::threads_of_launch());
    parallel::for_each(write(out, range), |task, out| {
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

/// Copies each place's winner from the source, whose elements lie at the places of `walk`; `target` may have
/// spare elements at its end.
pub(super) fn scatter<T: Pod + Send + Sync>(
    walk: &Walk<1>,
    source: &[T],
    winners: &[u32],
    target: &mut [T],
) {
    let pieces = (write(target, CHUNK), read(winners, CHUNK));
    parallel::for_each(pieces, |_, (target, winners)| {
        for (slot, &winner) in target.iter_mut().zip(winners) {
            if winner > 0 {
                let [place] = walk.places(winner as usize - 1);
                *slot = source[place];
            }
        }
    });
}

/// Contributions and where their additions go; the fields of `segments.glsl`.
#[derive(Clone, Debug)]
pub(super) struct Addition {
    /// Contributions.
    pub count: usize,
    /// Elements of a contribution, each for a target of its own.
    pub lines: usize,
    /// Targets along the axis.
    pub n: usize,
    pub inner: usize,
    pub axis_stride: isize,
    /// The source's places: of lines or, with `by_position`, of contributions.
    pub walk: Walk<1>,
    pub by_position: bool,
    pub float: bool,
}

/// Adds contributions to their targets in order. Every task owns a range of targets and walks over
/// all keys.
pub(super) fn add(addition: &Addition, keys: &[u32], source: &[u32], target: &mut [u32]) {
    let (n, inner) = (addition.n, addition.inner);
    let range = n.div_ceil(hlx_core::cpu::threads_of_launch());
    let tasks = parallel::tiles(target, n * inner, range * inner);
    parallel::for_each(tasks, |_, (outer, first, totals)| {
        let first_key = first / inner;
        let mut chains = Chains::new(addition.float, inner, totals);
        if addition.by_position {
            add_singles(addition, keys, source, first_key, &mut chains);
            return chains.finish();
        }
        for (position, key) in keys.iter().enumerate() {
            let at = (*key as usize).wrapping_sub(first_key);
            if at < chains.counts.len() {
                let add = |words: &[u32]| chains.add(at, words);
                with_contribution(addition, source, position, outer, add);
            }
        }
        chains.finish();
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
    let (walk, [stride]) = (&addition.walk, addition.walk.steps());
    walk.runs(0, keys.len(), |done, [mut from], count| {
        for key in &keys[done..done + count] {
            let at = (*key as usize).wrapping_sub(first_key);
            if at < chains.counts.len() {
                chains.add_one(at, source[from]);
            }
            from = from.wrapping_add_signed(stride);
        }
    });
}

/// Calls `body` with the words of a contribution to the lines of a block, in place where they lie side by side, else copied.
fn with_contribution(
    addition: &Addition,
    source: &[u32],
    position: usize,
    outer: usize,
    body: impl FnOnce(&[u32]),
) {
    let (walk, inner) = (&addition.walk, addition.inner);
    let along = position as isize * addition.axis_stride;
    let (extent, stride) = walk.innermost();
    if stride == 1 && extent.is_multiple_of(inner) {
        let [place] = walk.places(outer * inner);
        return body(&source[place.wrapping_add_signed(along)..][..inner]);
    }
    parallel::scratch(inner, |words| {
        walk.runs(outer * inner, inner, |done, [place], count| {
            let (place, words) = (place.wrapping_add_signed(along), &mut words[done..]);
            widen(DType::U32, source, place, stride, &mut words[..count]);
        });
        body(words);
    });
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
pub(super) fn sum_of(float: bool, a: u32, b: u32) -> u32 {
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
