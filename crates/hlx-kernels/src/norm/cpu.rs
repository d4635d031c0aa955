//! The CPU twin of norms; the parent module has the specification.

use hlx_core::arith::{self, FloatOps};

use crate::lanes::{self, rows_a_task};
use crate::parallel::{self, read, write};

/// What normal values are multiplied by, and in a layer norm what is added.
#[derive(Clone, Copy)]
pub struct Gain<'a> {
    /// `[cols]`.
    pub weight: &'a [f32],
    /// `[cols]`.
    pub bias: Option<&'a [f32]>,
}

impl Gain<'_> {
    fn n_stats(&self) -> usize {
        1 + usize::from(self.bias.is_some())
    }
}

/// All rows of the forward.
pub fn forward(x: &[f32], gain: Gain<'_>, eps: f32, y: &mut [f32], stats: &mut [f32]) {
    let (cols, n_stats) = (gain.weight.len(), gain.n_stats());
    let rows = rows_a_task(cols);
    let (n, of_stats) = (rows * cols, rows * n_stats);
    let pieces = (read(x, n), write(y, n), write(stats, of_stats));
    parallel::for_each(pieces, |_, (x, y, stats)| {
        forward_rows(x, gain, eps, y, stats)
    });
}

multiversion! {
    /// A few rows of the forward.
    pub fn forward_rows<A>(x: &[f32], gain: Gain<'_>, eps: f32, y: &mut [f32], stats: &mut [f32]) {
        let cols = gain.weight.len();
        let n_stats = gain.n_stats();
        let rows = x.chunks_exact(cols).zip(y.chunks_exact_mut(cols));
        for ((x, y), stats) in rows.zip(stats.chunks_exact_mut(n_stats)) {
            let mean = gain.bias.map(|_| arith::div(lanes::sum([x], |[x]| x), cols as f32));
            let squares = match mean {
                Some(mean) => lanes::sum([x], |[x]| A::mul(x - mean, x - mean)),
                None => lanes::sum([x], |[x]| A::mul(x, x)),
            };
            let variance = arith::div(squares, cols as f32);
            stats[n_stats - 1] = arith::div(1.0, arith::sqrt(variance + eps));
            if let Some(mean) = mean {
                stats[0] = mean;
            }
            normed_row::<A>(x, stats, gain, y);
        }
    }

    /// A few rows of the forward again, from their statistics.
    pub fn normed_rows<A>(x: &[f32], stats: &[f32], gain: Gain<'_>, y: &mut [f32]) {
        let cols = gain.weight.len();
        let n_stats = gain.n_stats();
        let rows = x.chunks_exact(cols).zip(y.chunks_exact_mut(cols));
        for ((x, y), stats) in rows.zip(stats.chunks_exact(n_stats)) {
            normed_row::<A>(x, stats, gain, y);
        }
    }
}

#[inline(always)]
fn normed_row<A: FloatOps>(x: &[f32], stats: &[f32], gain: Gain<'_>, y: &mut [f32]) {
    let places = y.iter_mut().zip(x).zip(gain.weight);
    match gain.bias {
        Some(bias) => {
            let (mean, rstd) = (stats[0], stats[1]);
            for (((y, &x), &weight), &bias) in places.zip(bias) {
                *y = A::fma(A::mul(x - mean, rstd), weight, bias);
            }
        }
        None => {
            let rstd = stats[0];
            for ((y, &x), &weight) in places {
                *y = A::mul(A::mul(x, rstd), weight);
            }
        }
    }
}

/// All rows of `dx`, with `n_stats` statistics per row.
pub fn backward_input(
    [x, weight, stats, dy]: [&[f32]; 4],
    n_stats: usize,
    residual: Option<&[f32]>,
    dx: &mut [f32],
) {
    let (rows, cols) = (rows_a_task(weight.len()), weight.len());
    let read_rows = [x, dy].map(|x| read(x, rows * cols));
    let pieces = (
        write(dx, rows * cols),
        read_rows,
        read(stats, rows * n_stats),
    );
    parallel::for_each(pieces, |task, (dx, [x, dy], stats)| {
        backward_input_rows(x, weight, stats, n_stats, dy, dx);
        if let Some(residual) = residual {
            add_residual(&residual[task * rows * cols..], dx);
        }
    });
}

multiversion! {
    /// A few rows of `dx`.
    fn backward_input_rows<A>(
        x: &[f32],
        weight: &[f32],
        stats: &[f32],
        n_stats: usize,
        dy: &[f32],
        dx: &mut [f32],
    ) {
        let cols = weight.len();
        let rows = x.chunks_exact(cols).zip(dy.chunks_exact(cols));
        let rows = rows.zip(dx.chunks_exact_mut(cols)).zip(stats.chunks_exact(n_stats));
        for (((x, dy), dx), stats) in rows {
            match *stats {
                [mean, rstd] => backward_row::<A, true>(x, weight, [mean, rstd], dy, dx),
                _ => backward_row::<A, false>(x, weight, [0.0, stats[0]], dy, dx),
            }
        }
    }
}

#[inline(always)]
fn backward_row<A: FloatOps, const CENTRED: bool>(
    x: &[f32],
    weight: &[f32],
    [mean, rstd]: [f32; 2],
    dy: &[f32],
    dx: &mut [f32],
) {
    let n = weight.len() as f32;
    let normal = |x: f32| A::mul(if CENTRED { x - mean } else { x }, rstd);
    let mut a = 0.0;
    if CENTRED {
        let sum = lanes::sum([dy, weight], |[dy, weight]| A::mul(dy, weight));
        a = arith::div(sum, n);
    }
    let sum = lanes::sum([x, dy, weight], |[x, dy, weight]| {
        A::mul(A::mul(dy, weight), normal(x))
    });
    let b = arith::div(sum, n);
    for (((dx, &x), &dy), &weight) in dx.iter_mut().zip(x).zip(dy).zip(weight) {
        let g = A::mul(dy, weight);
        let g = if CENTRED { g - a } else { g };
        *dx = A::mul(rstd, g - A::mul(normal(x), b));
    }
}

multiversion! {
    /// `dx = residual + dx`, while a task's rows are still in the cache.
    fn add_residual(residual: &[f32], dx: &mut [f32]) {
        for (dx, residual) in dx.iter_mut().zip(residual) {
            *dx += residual;
        }
    }
}

/// Columns of a task: whole rows, as a rule. One long stretch after another is what the processor loads ahead; the sums, read
/// and written for each row, stay in the first cache.
const BLOCK: usize = 4096;

/// Goes on with the chains of all of `dweight` and `dbias`, which an RMS norm has none of, in tasks of a shard and [`BLOCK`]
/// columns; a shard has `rows` rows.
pub fn backward_params(
    [x, stats, dy]: [&[f32]; 3],
    dweight: &mut [f32],
    dbias: &mut [f32],
    [rows, cols]: [usize; 2],
) {
    let n_stats = rows * if dbias.is_empty() { 1 } else { 2 };
    let shards = dweight.chunks_mut(cols).zip(parts(dbias, cols));
    let tasks = shards.enumerate().flat_map(|(shard, (dweight, dbias))| {
        let blocks = dweight.chunks_mut(BLOCK).zip(parts(dbias, BLOCK));
        let blocks = blocks.enumerate();
        blocks.map(move |(block, sums)| (shard, block * BLOCK, sums))
    });
    let mut tasks: Vec<_> = tasks.collect();
    parallel::each(&mut tasks, |(shard, col, (dweight, dbias))| {
        let elements = *shard * rows * cols..(*shard + 1) * rows * cols;
        let stats = &stats[*shard * n_stats..][..n_stats];
        let (x, dy) = (&x[elements.clone()], &dy[elements]);
        params_block(x, stats, dy, dweight, dbias, cols, *col);
    });
}

/// Parts of `len` columns; endless empty ones where there are no sums.
fn parts(sums: &mut [f32], len: usize) -> impl Iterator<Item = &mut [f32]> {
    let nothing = std::iter::repeat_with(Default::default);
    sums.chunks_mut(len).chain(nothing)
}

multiversion! {
    /// The chains of `dweight.len()` columns from `col` on.
    fn params_block<A>(
        x: &[f32],
        stats: &[f32],
        dy: &[f32],
        dweight: &mut [f32],
        dbias: &mut [f32],
        cols: usize,
        col: usize,
    ) {
        let n = dweight.len();
        let n_stats = if dbias.is_empty() { 1 } else { 2 };
        let rows = x.chunks_exact(cols).zip(dy.chunks_exact(cols));
        for ((x, dy), stats) in rows.zip(stats.chunks_exact(n_stats)) {
            params_row::<A>(&x[col..col + n], &dy[col..col + n], stats, dweight, dbias);
        }
        for sum in dweight.iter_mut().chain(dbias) {
            *sum = arith::pos0(*sum);
        }
    }
}

#[inline(always)]
fn params_row<A: FloatOps>(
    x: &[f32],
    dy: &[f32],
    stats: &[f32],
    weights: &mut [f32],
    biases: &mut [f32],
) {
    let terms = x.iter().zip(dy).zip(weights);
    match *stats {
        [mean, rstd] => {
            for (((&x, &dy), weight), bias) in terms.zip(biases) {
                *weight = A::fma(dy, A::mul(x - mean, rstd), *weight);
                *bias += dy;
            }
        }
        _ => {
            for ((&x, &dy), weight) in terms {
                *weight += A::mul(dy, A::mul(x, stats[0]));
            }
        }
    }
}
