//! Q3_K and Q6_K: groups of 16 with a scale, which is a small integer times the scale of the block.

use super::group::Group;
use super::rounded16;
use super::sweep::Sweep;
use crate::blocks::Block;
use crate::kind::BlockKind;

const GROUPS: usize = 16;
/// How often the block's scale and the groups' integers are fitted to each other.
const MOST_ROUNDS: usize = 3;

struct Work {
    groups: [Group<16>; GROUPS],
    q_range: (f64, f64),
    scale_range: (f64, f64),
}

#[derive(Clone)]
struct State {
    d: f64,
    scales: [f64; GROUPS],
    q: [[f64; 16]; GROUPS],
    error: f64,
}

/// The block of values, one of which is not 0.
pub(super) fn block_of(kind: BlockKind, values: &[f32], weights: &[f64]) -> Block {
    let wide = |(least, most): (i8, i8)| (f64::from(least), f64::from(most));
    let work = Work {
        groups: std::array::from_fn(|at| Group::new(&values[at * 16..], &weights[at * 16..])),
        q_range: wide(kind.range()),
        scale_range: wide(kind.scale_range()),
    };
    let state = work.search();
    let mut block = super::zeros(kind);
    block.d = state.d as f32;
    for at in 0..GROUPS {
        block.scales[at] = state.scales[at] as i8;
        for (q, found) in block.q[at * 16..].iter_mut().zip(state.q[at]) {
            *q = found as i8;
        }
    }
    block
}

impl Work {
    fn search(&self) -> State {
        let mut events = Vec::with_capacity(512);
        let [mut scales, mut weights] = [[0.0; GROUPS]; 2];
        for (at, group) in self.groups.iter().enumerate() {
            let sweep = Sweep {
                x: &group.x,
                w: &group.w,
                least: self.q_range.0,
                most: self.q_range.1,
                both_signs: true,
            };
            scales[at] = sweep.best_scale(&mut events);
            let fit = group.fit(scales[at], 0.0, self.q_range);
            weights[at] = group.sums(&fit.q).qq;
        }
        let sweep = Sweep {
            x: &scales,
            w: &weights,
            least: self.scale_range.0,
            most: self.scale_range.1,
            both_signs: true,
        };
        let d = rounded16(sweep.best_scale(&mut events));
        let (least, most) = self.scale_range;
        let starts = scales.map(|scale| match d != 0.0 {
            true => super::group::nearest((scale / d).clamp(least, most)),
            false => 0.0,
        });
        let mut best = self.fitted(d, starts);
        for _ in 0..MOST_ROUNDS {
            let next = self.fitted(self.solve(&best), best.scales);
            if next.error >= best.error {
                break;
            }
            best = next;
        }
        best
    }

    /// The best integers of each group beside those given, for the scale of the block.
    fn fitted(&self, d: f64, scales: [f64; GROUPS]) -> State {
        let mut state = State {
            d,
            scales,
            q: [[0.0; 16]; GROUPS],
            error: 0.0,
        };
        for (at, group) in self.groups.iter().enumerate() {
            let fit = |scale: f64| group.fit(d * scale, 0.0, self.q_range);
            let start = scales[at];
            let (mut scale, mut best) = (start, fit(start));
            // Both signs: the range of q has one more on one side.
            let candidates = [start - 1.0, start + 1.0, -start, -start - 1.0, -start + 1.0];
            let (least, most) = self.scale_range;
            for other in candidates
                .into_iter()
                .filter(|one| (least..=most).contains(one))
            {
                let found = fit(other);
                if found.error < best.error {
                    (scale, best) = (other, found);
                }
            }
            (state.scales[at], state.q[at]) = (scale, best.q);
            state.error += best.error;
        }
        state
    }

    /// The scale of the block that has the least error for the integers.
    fn solve(&self, state: &State) -> f64 {
        let (mut xa, mut aa) = (0.0, 0.0);
        for (at, group) in self.groups.iter().enumerate() {
            let (scale, sums) = (state.scales[at], group.sums(&state.q[at]));
            xa += scale * sums.xq;
            aa += scale * scale * sums.qq;
        }
        match aa > 0.0 {
            true => rounded16(xa / aa),
            false => state.d,
        }
    }
}
