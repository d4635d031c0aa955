//! Q2_K, Q4_K and Q5_K: groups with a scale and a minimum, which are small integers times two scales of the block.

use super::group::Group;
use super::offset::search;
use super::rounded16;
use super::sweep::Sweep;
use crate::blocks::{Block, MOST_GROUPS};
use crate::kind::BlockKind;

/// How often the block's scales and the groups' integers are fitted to each other.
const MOST_ROUNDS: usize = 3;
/// Scales of the block beside the first one that are tried.
const FACTORS: [f64; 3] = [1.0, 0.96, 1.04];

/// A block under way: groups of N values, of which the first `groups.len()` count.
struct Work<const N: usize> {
    groups: Vec<Group<N>>,
    most_q: f64,
    most_scale: f64,
}

/// Scales, and what follows of them.
#[derive(Clone)]
struct State<const N: usize> {
    d: f64,
    dmin: f64,
    scales: [f64; MOST_GROUPS],
    mins: [f64; MOST_GROUPS],
    q: [[f64; N]; MOST_GROUPS],
    error: f64,
}

/// The block of values, one of which is not 0.
pub(super) fn block_of<const N: usize>(kind: BlockKind, values: &[f32], weights: &[f64]) -> Block {
    let both = values.chunks_exact(N).zip(weights.chunks_exact(N));
    let work = Work::<N> {
        groups: both
            .map(|(values, weights)| Group::new(values, weights))
            .collect(),
        most_q: f64::from(kind.range().1),
        most_scale: f64::from(kind.scale_range().1),
    };
    let state = work.search();
    let mut block = super::zeros(kind);
    (block.d, block.dmin) = (state.d as f32, state.dmin as f32);
    for at in 0..work.groups.len() {
        block.scales[at] = state.scales[at] as i8;
        block.mins[at] = state.mins[at] as u8;
        for (q, found) in block.q[at * N..].iter_mut().zip(state.q[at]) {
            *q = found as i8;
        }
    }
    block
}

impl<const N: usize> Work<N> {
    fn search(&self) -> State<N> {
        let n = self.groups.len();
        let [mut scales, mut mins, mut of_scales, mut of_mins] = [[0.0; MOST_GROUPS]; 4];
        for (at, group) in self.groups.iter().enumerate() {
            let found = search(group, self.most_q, true);
            (scales[at], mins[at]) = (found.scale, found.min);
            (of_scales[at], of_mins[at]) = (group.sums(&found.fit.q).qq, group.totals().0);
        }
        let d = self.common(&scales[..n], &of_scales[..n]);
        let dmin = self.common(&mins[..n], &of_mins[..n]);
        let start = |values: &[f64; MOST_GROUPS], d: f64| {
            values.map(|value| match d > 0.0 {
                true => super::group::nearest((value / d).clamp(0.0, self.most_scale)),
                false => 0.0,
            })
        };
        let candidates = FACTORS.map(|factor| {
            let d = rounded16(d * factor);
            self.improved(self.fitted(d, dmin, (start(&scales, d), start(&mins, dmin))))
        });
        let best = candidates
            .into_iter()
            .reduce(|best, next| match next.error < best.error {
                true => next,
                false => best,
            });
        // There are candidates.
        best.unwrap_or_else(|| self.fitted(d, dmin, ([0.0; MOST_GROUPS], [0.0; MOST_GROUPS])))
    }

    /// Fits the block's scales to the integers, and these to the scales, while it helps.
    fn improved(&self, mut best: State<N>) -> State<N> {
        for _ in 0..MOST_ROUNDS {
            let (d, dmin) = self.solve(&best);
            let next = self.fitted(d, dmin, (best.scales, best.mins));
            if next.error >= best.error {
                break;
            }
            best = next;
        }
        best
    }

    /// The f16 that scales of groups are multiples of.
    fn common(&self, values: &[f64], weights: &[f64]) -> f64 {
        let sweep = Sweep {
            x: values,
            w: weights,
            least: 0.0,
            most: self.most_scale,
            both_signs: false,
        };
        rounded16(sweep.best_scale(&mut Vec::with_capacity(256)))
    }

    /// The best integers of each group beside those given, for the scales of the block.
    fn fitted(
        &self,
        d: f64,
        dmin: f64,
        starts: ([f64; MOST_GROUPS], [f64; MOST_GROUPS]),
    ) -> State<N> {
        let mut state = State {
            d,
            dmin,
            scales: starts.0,
            mins: starts.1,
            q: [[0.0; N]; MOST_GROUPS],
            error: 0.0,
        };
        for at in 0..self.groups.len() {
            self.fit_group(&mut state, at);
        }
        state
    }

    /// Goes to the best neighbour of a group's scale and minimum until none is better.
    fn fit_group(&self, state: &mut State<N>, at: usize) {
        let group = &self.groups[at];
        let range = (0.0, self.most_q);
        let fit = |scale: f64, min: f64| group.fit(state.d * scale, state.dmin * min, range);
        let (mut scale, mut min) = (state.scales[at], state.mins[at]);
        let mut best = fit(scale, min);
        for _ in 0..4 {
            let (start_scale, start_min) = (scale, min);
            for (one, two) in NEIGHBOURS {
                let (other_scale, other_min) = (start_scale + one, start_min + two);
                let within = |value: f64| (0.0..=self.most_scale).contains(&value);
                if !within(other_scale) || !within(other_min) {
                    continue;
                }
                let other = fit(other_scale, other_min);
                if other.error < best.error {
                    (best, scale, min) = (other, other_scale, other_min);
                }
            }
            if (scale, min) == (start_scale, start_min) {
                break;
            }
        }
        (state.scales[at], state.mins[at], state.q[at]) = (scale, min, best.q);
        state.error += best.error;
    }

    /// The scales of the block that have the least error for the integers.
    fn solve(&self, state: &State<N>) -> (f64, f64) {
        // The least squares of x = d a - dmin b, where a is a scale times q and b a minimum.
        let [mut aa, mut ab, mut bb, mut xa, mut xb] = [0.0; 5];
        for (at, group) in self.groups.iter().enumerate() {
            let (scale, min) = (state.scales[at], state.mins[at]);
            let (sums, (w, x)) = (group.sums(&state.q[at]), group.totals());
            aa += scale * scale * sums.qq;
            ab += scale * min * sums.q;
            bb += min * min * w;
            xa += scale * sums.xq;
            xb += min * x;
        }
        let determinant = aa * bb - ab * ab;
        let (d, dmin) = match determinant > 0.0 {
            true => (
                (bb * xa - ab * xb) / determinant,
                (ab * xa - aa * xb) / determinant,
            ),
            false if aa > 0.0 => (xa / aa, 0.0),
            false => (state.d, state.dmin),
        };
        (rounded16(d.max(0.0)), rounded16(dmin.max(0.0)))
    }
}

/// What is tried beside a scale and a minimum.
const NEIGHBOURS: [(f64, f64); 8] = [
    (-1.0, 0.0),
    (1.0, 0.0),
    (0.0, -1.0),
    (0.0, 1.0),
    (-1.0, -1.0),
    (1.0, 1.0),
    (-1.0, 1.0),
    (1.0, -1.0),
];
