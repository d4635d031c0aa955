//! Moves on the CPU: the target is cut into stretches of whole rows, one per task.

use crate::convert::read_run;
use crate::elementwise::strided::TILED_FROM;
use crate::layout::Walk;
use crate::map::CHUNK;
use crate::parallel::{self, write};

/// Rows and columns of the tile that a workgroup transposes, and rows of a strip here.
pub(super) const TILE: usize = 32;

/// One dimension: its extent, and the steps of the source and of the target.
#[derive(Clone, Copy)]
struct Dimension {
    extent: usize,
    x: isize,
    y: usize,
}

/// Writes elements of `x` to the places of `walk` in `y`.
pub(super) fn assign<T: Copy + Send + Sync>(x: &[T], y: &mut [T], walk: &Walk<2>) {
    let strides = walk.strides[0].iter().zip(&walk.strides[1]);
    let dimensions = walk.shape.iter().zip(strides);
    let dimensions = dimensions.map(|(&extent, (&x, &y))| Dimension {
        extent,
        x,
        y: y.unsigned_abs(),
    });
    let ([from, to], dimensions) = (walk.offsets, dimensions.collect::<Vec<_>>());
    assign_at(x, from, &mut y[to..], &dimensions);
}

/// Writes elements of `x`, of which the first lies at `from`, to the places of `dimensions` in `y`.
fn assign_at<T: Copy + Send + Sync>(x: &[T], from: usize, y: &mut [T], dimensions: &[Dimension]) {
    let [outer, inner @ ..] = dimensions else {
        if let Some(slot) = y.first_mut() {
            *slot = x[from];
        }
        return;
    };
    if inner.is_empty() {
        return assign_run(x, from, y, outer);
    }
    let rows = inner.last().is_some_and(|last| matches!(last.x, 0 | 1));
    if outer.x == 1 && outer.extent >= TILED_FROM && !rows {
        return assign_transposed(x, from, y, outer, inner);
    }
    let within: usize = inner.iter().map(|dimension| dimension.extent).product();
    let rows = (CHUNK / within).max(1);
    let end = y.len().min(outer.extent * outer.y);
    parallel::for_each(write(&mut y[..end], rows * outer.y), |task, y| {
        for (i, y) in (task * rows..).zip(y.chunks_mut(outer.y)) {
            assign_at(x, from.wrapping_add_signed(i as isize * outer.x), y, inner);
        }
    });
}

/// One dimension.
fn assign_run<T: Copy + Send + Sync>(x: &[T], from: usize, y: &mut [T], along: &Dimension) {
    if along.extent <= CHUNK {
        return assign_piece(x, from, y, along);
    }
    let end = y.len().min(along.extent * along.y);
    parallel::for_each(write(&mut y[..end], CHUNK * along.y), |i, y| {
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

/// Dimensions of which the source is contiguous along the first, and not along the last: strips of
/// rows of the target, a tile at a time through a small array, so that cache lines are read and
/// written whole (4,096 x 1,024 words on two busy threads of an EPYC: 3.2 ms, column by column 55).
fn assign_transposed<T: Copy + Send + Sync>(
    x: &[T],
    from: usize,
    y: &mut [T],
    a: &Dimension,
    inner: &[Dimension],
) {
    let end = y.len().min(a.extent * a.y);
    parallel::for_each(write(&mut y[..end], TILE * a.y), |strip, y| {
        let rows = TILE.min(a.extent - strip * TILE);
        transpose_strip(x, from + strip * TILE, y, rows, a.y, inner);
    });
}

/// Transposes the tiles of one strip of `rows` rows, `step` apart.
fn transpose_strip<T: Copy>(
    x: &[T],
    from: usize,
    y: &mut [T],
    rows: usize,
    step: usize,
    inner: &[Dimension],
) {
    let [along, within @ ..] = inner else { return };
    if !within.is_empty() {
        for i in 0..along.extent {
            let from = from.wrapping_add_signed(i as isize * along.x);
            transpose_strip(x, from, &mut y[i * along.y..], rows, step, within);
        }
        return;
    }
    let mut tile = [[x[from]; TILE]; TILE];
    for first in (0..along.extent).step_by(TILE) {
        let columns = TILE.min(along.extent - first);
        for (column, values) in (first..).zip(&mut tile[..columns]) {
            let from = from.wrapping_add_signed(column as isize * along.x);
            values[..rows].copy_from_slice(&x[from..][..rows]);
        }
        for row in 0..rows {
            let y = y[row * step + first * along.y..].iter_mut();
            for (y, values) in y.step_by(along.y).zip(&tile[..columns]) {
                *y = values[row];
            }
        }
    }
}
