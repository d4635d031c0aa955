//! The CPU twin of layer norm; the parent module has the specification.

use hlx_core::arith::{self, FloatOps};
use rayon::prelude::*;

use crate::lanes;

multiversion! {
    /// A few rows of the forward; their number is `stats.len() / 2`.
    pub fn forward_rows<A>(
        x: &[f32],
        weight: &[f32],
        bias: &[f32],
        y: &mut [f32],
        stats: &mut [f32],
        eps: f32,
    ) {
        let cols = weight.len();
        let rows = x.chunks_exact(cols).zip(y.chunks_exact_mut(cols));
        for ((x, y), stats) in rows.zip(stats.chunks_exact_mut(2)) {
            let mean = arith::div(lanes::sum([x], |[x]| x), cols as f32);
            let squares = lanes::sum([x], |[x]| A::mul(x - mean, x - mean));
            let variance = arith::div(squares, cols as f32);
            let rstd = arith::div(1.0, arith::sqrt(variance + eps));
            normed_row::<A>(x, [mean, rstd], weight, bias, y);
            stats[0] = mean;
            stats[1] = rstd;
        }
    }
}

multiversion! {
    /// A few rows of the forward again, from their statistics.
    pub fn normed_rows<A>(x: &[f32], stats: &[f32], weight: &[f32], bias: &[f32], y: &mut [f32]) {
        let cols = weight.len();
        let rows = x.chunks_exact(cols).zip(y.chunks_exact_mut(cols));
        for ((x, y), stats) in rows.zip(stats.chunks_exact(2)) {
            normed_row::<A>(x, [stats[0], stats[1]], weight, bias, y);
        }
    }
}

#[inline(always)]
fn normed_row<A: FloatOps>(
    x: &[f32],
    [mean, rstd]: [f32; 2],
    weight: &[f32],
    bias: &[f32],
    y: &mut [f32],
) {
    for (((y, &x), &weight), &bias) in y.iter_mut().zip(x).zip(weight).zip(bias) {
        *y = A::fma(A::mul(x - mean, rstd), weight, bias);
    }
}

multiversion! {
    /// A few rows of `dx`; their number is `stats.len() / 2`.
    pub fn backward_input_rows<A>(
        x: &[f32],
        weight: &[f32],
        stats: &[f32],
        dy: &[f32],
        dx: &mut [f32],
    ) {
        let cols = weight.len();
        let rows = x.chunks_exact(cols).zip(dy.chunks_exact(cols));
        let rows = rows.zip(dx.chunks_exact_mut(cols)).zip(stats.chunks_exact(2));
        for (((x, dy), dx), stats) in rows {
            let (mean, rstd) = (stats[0], stats[1]);
            let g_sum = lanes::sum([dy, weight], |[dy, weight]| A::mul(dy, weight));
            let gn_sum = lanes::sum([x, dy, weight], |[x, dy, weight]| {
                A::mul(A::mul(dy, weight), A::mul(x - mean, rstd))
            });
            let a = arith::div(g_sum, cols as f32);
            let b = arith::div(gn_sum, cols as f32);
            for (((dx, &x), &dy), &weight) in dx.iter_mut().zip(x).zip(dy).zip(weight) {
                let normal = A::mul(x - mean, rstd);
                *dx = A::mul(rstd, (A::mul(dy, weight) - a) - A::mul(normal, b));
            }
        }
    }
}

/// Columns of one chain's registers: two arrays of four AVX-512 registers.
const BLOCK: usize = 64;

/// All of `dweight` and `dbias`, in tasks of a shard and [`BLOCK`] columns; `shape` is the rows of
/// a shard and the columns.
pub fn backward_params(
    x: &[f32],
    stats: &[f32],
    dy: &[f32],
    dweight: &mut [f32],
    dbias: &mut [f32],
    (rows, cols): (usize, usize),
    accumulate: bool,
) {
    if !accumulate {
        dweight.fill(0.0);
        dbias.fill(0.0);
    }
    let shards = dweight.chunks_mut(cols).zip(dbias.chunks_mut(cols));
    let blocks = shards.enumerate().flat_map(|(shard, (dweight, dbias))| {
        let blocks = dweight.chunks_mut(BLOCK).zip(dbias.chunks_mut(BLOCK));
        blocks
            .enumerate()
            .map(move |(block, sums)| (shard, block * BLOCK, sums))
    });
    let blocks: Vec<_> = blocks.collect();
    blocks
        .into_par_iter()
        .for_each(|(shard, col, (dweight, dbias))| {
            let elements = shard * rows * cols..(shard + 1) * rows * cols;
            let stats = &stats[shard * rows * 2..(shard + 1) * rows * 2];
            params_block(
                &x[elements.clone()],
                stats,
                &dy[elements],
                dweight,
                dbias,
                cols,
                col,
            );
        });
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
        let width = dweight.len();
        let mut weights = [0.0f32; BLOCK];
        let mut biases = [0.0f32; BLOCK];
        weights[..width].copy_from_slice(dweight);
        biases[..width].copy_from_slice(dbias);
        let rows = x.chunks_exact(cols).zip(dy.chunks_exact(cols)).zip(stats.chunks_exact(2));
        for ((x, dy), stats) in rows {
            let (x, dy) = (&x[col..col + width], &dy[col..col + width]);
            match (<&[f32; BLOCK]>::try_from(x), <&[f32; BLOCK]>::try_from(dy)) {
                (Ok(x), Ok(dy)) => params_row::<A>(x, dy, stats, &mut weights, &mut biases),
                _ => params_row::<A>(x, dy, stats, &mut weights[..width], &mut biases[..width]),
            }
        }
        for (stored, sum) in dweight.iter_mut().zip(weights) {
            *stored = arith::pos0(sum);
        }
        for (stored, sum) in dbias.iter_mut().zip(biases) {
            *stored = arith::pos0(sum);
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
    let (mean, rstd) = (stats[0], stats[1]);
    for (((&x, &dy), weight), bias) in x.iter().zip(dy).zip(weights).zip(biases) {
        *weight = A::fma(dy, A::mul(x - mean, rstd), *weight);
        *bias += dy;
    }
}
