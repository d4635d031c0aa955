//! A scale and a minimum for each group: those of Q4_1 and Q5_1, and the first step of Q2_K, Q4_K and Q5_K.

use super::group::{Fit, Group};
use super::{neighbour16, rounded16};
use crate::blocks::Block;
use crate::kind::BlockKind;

/// Spans of the integers, beside that of the values, that are tried: from so many levels more to so many less.
const STEPS: i32 = 12;
const STEP: f64 = 0.1;
/// How often integers and scales are fitted to each other.
const MOST_ROUNDS: usize = 8;

/// `scale * q - min`, and its error.
#[derive(Clone, Copy, Debug)]
pub(super) struct Affine<const N: usize> {
    pub scale: f64,
    pub min: f64,
    pub fit: Fit<N>,
}

/// The best scale of at least 0 and minimum of a group, whose integers go from 0 to `most`. `positive` says that the
/// minimum is at least 0.
pub(super) fn search<const N: usize>(group: &Group<N>, most: f64, positive: bool) -> Affine<N> {
    let range = (0.0, most);
    let least = group.x.iter().fold(f64::INFINITY, |least, &x| least.min(x));
    let largest = group
        .x
        .iter()
        .fold(f64::NEG_INFINITY, |largest, &x| largest.max(x));
    let least = if positive { least.min(0.0) } else { least };
    let span = largest - least;
    let constant = Affine {
        scale: 0.0,
        min: -least,
        fit: group.fit(0.0, -least, range),
    };
    // All values are equal, or none is above 0 and they are, or the span is beyond f16.
    if span <= 0.0 {
        return constant;
    }
    let totals = group.totals();
    let mut best = constant;
    for step in -STEPS..=STEPS {
        let inverse = (most + STEP * f64::from(step)) / span;
        let q = group.integers(inverse, -least * inverse, range);
        let (scale, min) = solve(group, totals, &q, positive);
        let error = group.error(&q, scale, min);
        if error < best.fit.error {
            let fit = Fit { q, error };
            best = Affine { scale, min, fit };
        }
    }
    improve(group, totals, best, range, positive)
}

/// Fits integers to scale and minimum, and these to the integers, while it helps.
fn improve<const N: usize>(
    group: &Group<N>,
    totals: (f64, f64),
    mut best: Affine<N>,
    range: (f64, f64),
    positive: bool,
) -> Affine<N> {
    for _ in 0..MOST_ROUNDS {
        let q = group.fit(best.scale, best.min, range).q;
        let (scale, min) = solve(group, totals, &q, positive);
        let error = group.error(&q, scale, min);
        if error >= best.fit.error {
            break;
        }
        let fit = Fit { q, error };
        best = Affine { scale, min, fit };
    }
    best
}

/// The scale and the minimum of the least error for integers.
fn solve<const N: usize>(
    group: &Group<N>,
    (w, x): (f64, f64),
    q: &[f64; N],
    positive: bool,
) -> (f64, f64) {
    let sums = group.sums(q);
    let determinant = w * sums.qq - sums.q * sums.q;
    if determinant > 0.0 {
        let scale = (w * sums.xq - x * sums.q) / determinant;
        let min = (sums.q * sums.xq - sums.qq * x) / determinant;
        if scale >= 0.0 && (min >= 0.0 || !positive) {
            return (scale, min);
        }
    }
    match sums.qq > 0.0 {
        true => ((sums.xq / sums.qq).max(0.0), 0.0),
        false => (0.0, if positive { (-x / w).max(0.0) } else { -x / w }),
    }
}

/// The block of Q4_1 or Q5_1.
pub(super) fn block_of(kind: BlockKind, values: &[f32], weights: &[f64]) -> Block {
    let group = Group::<32>::new(values, weights);
    let most = f64::from(kind.range().1);
    let found = search(&group, most, false);
    let (scale, min) = (rounded16(found.scale), rounded16(found.min));
    let fit = |scale: f64, min: f64| (scale, min, group.fit(scale, min, (0.0, most)));
    let mut best = fit(scale, min);
    // Scale and offset had to be of f16.
    for (step, other) in [-1, 0, 1]
        .into_iter()
        .flat_map(|one| [-1, 0, 1].map(|two| (one, two)))
    {
        let other = fit(neighbour16(scale, step), neighbour16(min, other));
        if other.2.error < best.2.error {
            best = other;
        }
    }
    let mut block = Block {
        d: best.0 as f32,
        dmin: best.1 as f32,
        ..Block::default()
    };
    block.mins[0] = 1;
    for (q, found) in block.q.iter_mut().zip(best.2.q) {
        *q = found as i8;
    }
    block
}
