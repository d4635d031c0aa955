//! Q8_0, Q4_0 and Q5_0: 32 values and one scale.

use super::group::{Fit, Group};
use super::sweep::Sweep;
use super::{neighbour16, rounded16};
use crate::blocks::Block;
use crate::kind::BlockKind;

/// The block of values, one of which is not 0.
pub(super) fn block_of(kind: BlockKind, values: &[f32], weights: &[f64]) -> Block {
    let group = Group::<32>::new(values, weights);
    let (least, most) = range_of(kind);
    let sweep = Sweep {
        x: &group.x,
        w: &group.w,
        least,
        most,
        both_signs: least != -most,
    };
    let scale = rounded16(sweep.best_scale(&mut Vec::with_capacity(512)));
    let fit = |scale: f64| (scale, group.fit(scale, 0.0, (least, most)));
    let mut best: (f64, Fit<32>) = fit(scale);
    // The scale had to be an f16.
    for step in [-1, 1] {
        let other = fit(neighbour16(scale, step));
        if other.1.error < best.1.error {
            best = other;
        }
    }
    let mut block = Block {
        d: best.0 as f32,
        ..Block::default()
    };
    for (q, found) in block.q.iter_mut().zip(best.1.q) {
        *q = found as i8;
    }
    block
}

/// The range of q. Of Q8_0 it is symmetric, as other programs expect.
fn range_of(kind: BlockKind) -> (f64, f64) {
    let (least, most) = kind.range();
    match kind {
        BlockKind::Q8_0 => (-f64::from(most), f64::from(most)),
        _ => (f64::from(least), f64::from(most)),
    }
}
