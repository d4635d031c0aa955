//! The CPU twins of indexing.

use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

use bytemuck::Pod;

use super::{NO_BAD_INDEX, Picks};
use crate::layout::Walk;
use crate::map::CHUNK;
use crate::parallel::{self, read, write};

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
    let range = out.len().div_ceil(rayon::current_num_threads());
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
