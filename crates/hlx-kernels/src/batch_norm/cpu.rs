//! The CPU twin of batch norm; the parent module has the specification.

use hlx_core::arith;

use super::BatchNorm;
use crate::convert::read_run;
use crate::lanes;
use crate::layout::Walk;
use crate::parallel::{self, read, write};
use crate::terms::PIECE;

impl BatchNorm {
    /// The terms of row `at` of the statistics, with `empty` samples in the pass.
    fn terms_at(&self, at: usize, empty: usize) -> Walk<1> {
        let (shard, channel) = (at / self.channels, at % self.channels);
        let real = self.real(empty, shard);
        let first = (shard + 1) * self.samples - real;
        let stride = (self.channels * self.length) as isize;
        let (shape, strides) = match self.length {
            1 => (vec![real], vec![stride]),
            length => (vec![real, length], vec![stride, 1]),
        };
        Walk {
            shape,
            strides: [strides],
            offsets: [(first * self.channels + channel) * self.length],
        }
    }
}

/// The terms of a piece, copied side by side.
fn gather<'a>(terms: &Walk<1>, x: &[f32], piece: usize, to: &'a mut [f32; PIECE]) -> &'a [f32] {
    let [step] = terms.steps();
    let n = terms.count().saturating_sub(piece * PIECE).min(PIECE);
    terms.runs(piece * PIECE, n, |done, [first], run| {
        read_run(x, first, step, &mut to[done..done + run]);
    });
    &to[..n]
}

/// The partials of all channels of all shards.
pub fn statistics(x: &[f32], partials: &mut [f32], empty: usize, spec: &BatchNorm) {
    parallel::for_each(write(partials, 2 * spec.pieces()), |at, partials| {
        let terms = spec.terms_at(at, empty);
        let mut held = [0.0; PIECE];
        for (piece, partial) in partials.chunks_exact_mut(2).enumerate() {
            piece_statistics(gather(&terms, x, piece, &mut held), partial);
        }
    });
}

multiversion! {
    fn piece_statistics<A>(x: &[f32], partial: &mut [f32]) {
        let total = lanes::sum([x], |[x]| x);
        let mean = arith::div(total, x.len().max(1) as f32);
        partial[0] = total;
        partial[1] = lanes::sum([x], |[x]| A::mul(x - mean, x - mean));
    }
}

/// Mean and rstd of all channels of all shards.
pub fn join(partials: &[f32], stats: &mut [f32], empty: usize, eps: f32, spec: &BatchNorm) {
    let rows = (write(stats, 2), read(partials, 2 * spec.pieces()));
    parallel::for_each(rows, |at, (stats, partials)| {
        let count = spec.terms_at(at, empty).count();
        let (mut sums, mut spreads) = (vec![0.0; spec.pieces()], vec![0.0; spec.pieces()]);
        let [mean, spread] = joined(partials, &mut sums, &mut spreads, count);
        let variance = arith::div(spread, count.max(1) as f32);
        stats[0] = mean;
        stats[1] = arith::div(1.0, arith::sqrt(variance + eps));
    });
}

multiversion! {
    /// The mean of `count` terms and their squares around it, from the pieces' values; the other two
    /// arguments are for the pieces' terms of both sums.
    fn joined<A>(
        partials: &[f32],
        sums: &mut [f32],
        spreads: &mut [f32],
        count: usize,
    ) -> [f32; 2] {
        for (sum, partial) in sums.iter_mut().zip(partials.chunks_exact(2)) {
            *sum = partial[0];
        }
        let mean = arith::div(lanes::sum([sums], |[sum]| sum), count.max(1) as f32);
        for (piece, (spread, partial)) in spreads.iter_mut().zip(partials.chunks_exact(2)).enumerate() {
            let n = count.saturating_sub(piece * PIECE).min(PIECE);
            *spread = if n == 0 {
                0.0
            } else {
                let d = arith::div(partial[0], n as f32) - mean;
                partial[1] + A::mul(n as f32, A::mul(d, d))
            };
        }
        [mean, lanes::sum([spreads], |[spread]| spread)]
    }
}

/// How the running values follow.
#[derive(Clone, Copy)]
pub struct Follow {
    /// Shards that they have followed so far.
    pub seen: u32,
    /// `None` is one over their number.
    pub momentum: Option<f32>,
}

/// Moves the running values shard by shard.
pub fn follow(
    partials: &[f32],
    stats: &[f32],
    mean: &mut [f32],
    variance: &mut [f32],
    empty: usize,
    Follow { mut seen, momentum }: Follow,
    spec: &BatchNorm,
) {
    let pieces = spec.pieces();
    let (mut sums, mut spreads) = (vec![0.0; pieces], vec![0.0; pieces]);
    for shard in 0..spec.shards {
        let count = spec.real(empty, shard) * spec.length;
        if count < 2 {
            continue;
        }
        seen += 1;
        let m = momentum.unwrap_or_else(|| arith::div(1.0, seen as f32));
        for channel in 0..spec.channels {
            let at = shard * spec.channels + channel;
            let partials = &partials[2 * at * pieces..2 * (at + 1) * pieces];
            let [_, spread] = joined(partials, &mut sums, &mut spreads, count);
            let unbiased = arith::div(spread, (count - 1) as f32);
            moved(&mut mean[channel..=channel], stats[2 * at], m);
            moved(&mut variance[channel..=channel], unbiased, m);
        }
    }
}

multiversion! {
    fn moved<A>(running: &mut [f32], value: f32, m: f32) {
        running[0] = A::fma(m, value, A::mul(1.0 - m, running[0]));
    }
}

/// All of y.
pub fn apply(x: &[f32], [weight, bias, stats]: [&[f32]; 3], y: &mut [f32], spec: &BatchNorm) {
    let per_sample = spec.channels * spec.length;
    let samples = (read(x, per_sample), write(y, per_sample));
    parallel::for_each(samples, |sample, (x, y)| {
        let shard = sample / spec.samples;
        let stats = &stats[2 * shard * spec.channels..2 * (shard + 1) * spec.channels];
        apply_sample(x, weight, bias, stats, y, spec.length);
    });
}

multiversion! {
    fn apply_sample<A>(
        x: &[f32],
        weight: &[f32],
        bias: &[f32],
        stats: &[f32],
        y: &mut [f32],
        length: usize,
    ) {
        let planes = x.chunks_exact(length).zip(y.chunks_exact_mut(length));
        let values = weight.iter().zip(bias).zip(stats.chunks_exact(2));
        for ((x, y), ((&weight, &bias), stats)) in planes.zip(values) {
            let (mean, rstd) = (stats[0], stats[1]);
            for (y, &x) in y.iter_mut().zip(x) {
                *y = A::fma(A::mul(x - mean, rstd), weight, bias);
            }
        }
    }
}

/// The partials of both backward sums.
pub fn backward_sums(
    [x, dy, stats]: [&[f32]; 3],
    partials: &mut [f32],
    empty: usize,
    spec: &BatchNorm,
) {
    let rows = (write(partials, 2 * spec.pieces()), read(stats, 2));
    parallel::for_each(rows, |at, (partials, stats)| {
        let terms = spec.terms_at(at, empty);
        let (mut held, mut slopes) = ([0.0; PIECE], [0.0; PIECE]);
        for (piece, partial) in partials.chunks_exact_mut(2).enumerate() {
            let x = gather(&terms, x, piece, &mut held);
            let dy = gather(&terms, dy, piece, &mut slopes);
            piece_sums(x, dy, stats, partial);
        }
    });
}

multiversion! {
    fn piece_sums<A>(x: &[f32], dy: &[f32], stats: &[f32], partial: &mut [f32]) {
        let (mean, rstd) = (stats[0], stats[1]);
        partial[0] = lanes::sum([dy], |[dy]| dy);
        partial[1] = lanes::sum([x, dy], |[x, dy]| A::mul(dy, A::mul(x - mean, rstd)));
    }
}

/// The sums of every channel of every shard, and their means.
pub fn backward_join(
    partials: &[f32],
    means: &mut [f32],
    [dweight, dbias]: [&mut [f32]; 2],
    accumulate: bool,
    empty: usize,
    spec: &BatchNorm,
) {
    let rows = partials.chunks_exact(2 * spec.pieces());
    let rows = rows.zip(means.chunks_exact_mut(2));
    let sums = dweight.iter_mut().zip(dbias);
    for (at, ((partials, means), (dweight, dbias))) in rows.zip(sums).enumerate() {
        let n = spec.terms_at(at, empty).count().max(1) as f32;
        let [plain, scaled] = pair_sums(partials);
        means[0] = arith::div(plain, n);
        means[1] = arith::div(scaled, n);
        for (sum, of_shard) in [(dbias, plain), (dweight, scaled)] {
            *sum = if accumulate {
                *sum + of_shard
            } else {
                of_shard
            };
        }
    }
}

/// The sums of the pieces' pairs.
fn pair_sums(partials: &[f32]) -> [f32; 2] {
    let of = |which: usize| {
        let values: Vec<f32> = partials.iter().skip(which).step_by(2).copied().collect();
        lanes::sum([&values], |[value]| value)
    };
    [of(0), of(1)]
}

/// All of dx.
pub fn backward_input(
    [x, dy, weight, stats, means]: [&[f32]; 5],
    dx: &mut [f32],
    empty: usize,
    spec: &BatchNorm,
) {
    let per_sample = spec.channels * spec.length;
    let samples = ([x, dy].map(|x| read(x, per_sample)), write(dx, per_sample));
    parallel::for_each(samples, |sample, ([x, dy], dx)| {
        if sample < empty {
            dx.fill(0.0);
            return;
        }
        let shard = sample / spec.samples;
        let rows = 2 * shard * spec.channels..2 * (shard + 1) * spec.channels;
        let (stats, means) = (&stats[rows.clone()], &means[rows]);
        input_sample(x, dy, weight, stats, means, dx, spec.length);
    });
}

multiversion! {
    fn input_sample<A>(
        x: &[f32],
        dy: &[f32],
        weight: &[f32],
        stats: &[f32],
        means: &[f32],
        dx: &mut [f32],
        length: usize,
    ) {
        let planes = x.chunks_exact(length).zip(dy.chunks_exact(length));
        let planes = planes.zip(dx.chunks_exact_mut(length));
        let values = weight.iter().zip(stats.chunks_exact(2)).zip(means.chunks_exact(2));
        for (((x, dy), dx), ((&weight, stats), means)) in planes.zip(values) {
            let (mean, rstd, a, b) = (stats[0], stats[1], means[0], means[1]);
            let steep = A::mul(weight, rstd);
            for ((dx, &x), &dy) in dx.iter_mut().zip(x).zip(dy) {
                let normal = A::mul(x - mean, rstd);
                *dx = A::mul(steep, (dy - a) - A::mul(normal, b));
            }
        }
    }
}
