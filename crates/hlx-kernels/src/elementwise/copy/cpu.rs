//! Moves on the CPU: the target is cut into stretches of whole rows, one a task.

use rayon::prelude::*;

use super::moves::{Dimension, TILE};
use crate::elementwise::convert::read_run;
use crate::map::CHUNK;

/// Writes elements of `x`, of which the first lies at `from`, to the places of `dimensions` in `y`.
pub(super) fn assign<T: Copy + Send + Sync>(
    x: &[T],
    from: usize,
    y: &mut [T],
    dimensions: &[Dimension],
) {
    let [outer, inner @ ..] = dimensions else {
        if let Some(slot) = y.first_mut() {
            *slot = x[from];
        }
        return;
    };
    if inner.is_empty() {
        return assign_run(x, from, y, outer);
    }
    if let [b] = inner
        && outer.x == 1
        && b.x != 1
    {
        return assign_turned(x, from, y, [outer, b]);
    }
    let within: usize = inner.iter().map(|dimension| dimension.extent).product();
    let rows = y.par_chunks_mut(outer.y).take(outer.extent).enumerate();
    rows.with_min_len((CHUNK / within).max(1))
        .for_each(|(i, y)| {
            assign(x, from.wrapping_add_signed(i as isize * outer.x), y, inner);
        });
}

/// One dimension.
fn assign_run<T: Copy + Send + Sync>(x: &[T], from: usize, y: &mut [T], along: &Dimension) {
    if along.extent <= CHUNK {
        return assign_piece(x, from, y, along);
    }
    let pieces = y.par_chunks_mut(CHUNK * along.y).enumerate();
    pieces
        .take(along.extent.div_ceil(CHUNK))
        .for_each(|(i, y)| {
            let first = i * CHUNK;
            let piece = Dimension {
                extent: CHUNK.min(along.extent - first),
                ..*along
            };
            let from = from.wrapping_add_signed(first as isize * along.x);
            assign_piece(x, from, y, &piece);
        });
}

fn assign_piece<T: Copy>(x: &[T], from: usize, y: &mut [T], along: &Dimension) {
    if along.y == 1 {
        return read_run(x, from, along.x, &mut y[..along.extent]);
    }
    for (i, y) in y.iter_mut().step_by(along.y).take(along.extent).enumerate() {
        *y = x[from.wrapping_add_signed(i as isize * along.x)];
    }
}

/// Two dimensions, of which the source is contiguous along the first: strips of rows of the target,
/// filled a column at a time, so that the source's cache lines are read whole.
fn assign_turned<T: Copy + Send + Sync>(
    x: &[T],
    from: usize,
    y: &mut [T],
    [a, b]: [&Dimension; 2],
) {
    let strips = y.par_chunks_mut(TILE * a.y).enumerate();
    let strips = strips.take(a.extent.div_ceil(TILE));
    strips
        .with_min_len((CHUNK / (TILE * b.extent)).max(1))
        .for_each(|(strip, y)| {
            let rows = TILE.min(a.extent - strip * TILE);
            let first = from + strip * TILE;
            for column in 0..b.extent {
                let x = &x[first.wrapping_add_signed(column as isize * b.x)..][..rows];
                for (y, x) in y[column * b.y..].iter_mut().step_by(a.y).zip(x) {
                    *y = *x;
                }
            }
        });
}
