//! RMS norm over the last dimension, with gain: layer norm without mean and bias.
//!
//! Forward, `C = cols`: `rstd_r = 1 / sqrt((sum_c x^2) / C + eps)`, `y[r, c] = (x[r, c] rstd_r)
//! weight[c]`; `stats` keeps rstd. Backward, with `n = x rstd` and `g = dy weight`:
//! `dx = rstd (g - n ((sum_c g n) / C))`; for the gain one chain over the rows of each shard in order:
//! `dweight = dweight + dy n`.
//!
//! Shapes: `x`, `y`, `dx`, `dy` `[rows, C]`; `weight` `[C]`; `stats` `[rows]`; `dweight`
//! `[shards, C]`. Row sums have the order of [`lanes`]. PyTorch: `torch.nn.functional.rms_norm`.

use hlx_core::arith::{self, FloatOps};
use hlx_core::{Binding, Buffer, Device};
use rayon::prelude::*;

use crate::KernelError;
use crate::columns::Columns;
use crate::error::{check_len, check_sizes};
use crate::lanes::{self, check_rows, rows_a_task};
use crate::rows::{NormBackwardInput, RowArg, Rows};

#[cfg(test)]
mod tests;

shader!(forward, rms_norm::forward);
shader!(forward_held, rms_norm::forward_held);
shader!(backward_input, rms_norm::backward_input);
shader!(backward_input_held, rms_norm::backward_input_held);
shader!(backward_weight, rms_norm::backward_weight);

/// Computes `y` and the rstd that the backward needs; overwrites `y` and `stats`.
///
/// `x`, `y`: `[rows, cols]`; `weight`: `[cols]`; `stats`: `[rows]`.
///
/// # Errors
/// If a buffer has another length, or the launch fails.
#[allow(clippy::too_many_arguments)] // One kernel's buffers and shape, flat as everywhere here.
pub fn rms_norm_forward(
    device: &Device,
    x: &Buffer,
    weight: &Buffer,
    y: &Buffer,
    stats: &Buffer,
    rows: usize,
    cols: usize,
    eps: f32,
) -> Result<(), KernelError> {
    let kernel = Rows {
        name: "rms_norm_forward",
        streamed: &forward::SHADER,
        held: &forward_held::SHADER,
        rows,
        cols,
        constants: &[],
        parameters: &[eps.to_bits()],
    };
    let args = [
        RowArg::Rows("x", Binding::Read(x)),
        RowArg::Columns("weight", weight),
        RowArg::Rows("y", Binding::Write(y)),
        RowArg::PerRow("stats", Binding::Write(stats), 1),
    ];
    kernel.launch(device, &args, move |b| {
        let ([x, weight], [y, stats]) = b.split();
        let rows = rows_a_task(cols);
        (
            x.par_chunks(rows * cols),
            y.par_chunks_mut(rows * cols),
            stats.par_chunks_mut(rows),
        )
            .into_par_iter()
            .for_each(|(x, y, stats)| forward_rows(x, weight, y, stats, eps));
    })
}

/// Computes `dx`; overwrites it.
///
/// `x`, `dy`, `dx`: `[rows, cols]`; `weight`: `[cols]`; `stats`: `[rows]`, from the forward.
///
/// # Errors
/// As [`rms_norm_forward`].
#[allow(clippy::too_many_arguments)] // As above.
pub fn rms_norm_backward_input(
    device: &Device,
    x: &Buffer,
    weight: &Buffer,
    stats: &Buffer,
    dy: &Buffer,
    dx: &Buffer,
    rows: usize,
    cols: usize,
) -> Result<(), KernelError> {
    launch_backward_input(device, x, weight, stats, dy, None, dx, rows, cols)
}

/// As [`rms_norm_backward_input`], plus another gradient of x, such as a residual's:
/// `dx = residual + ..`, the bits of an addition after it.
///
/// # Errors
/// As [`rms_norm_forward`].
#[allow(clippy::too_many_arguments)] // As above.
pub fn rms_norm_backward_input_add(
    device: &Device,
    x: &Buffer,
    weight: &Buffer,
    stats: &Buffer,
    dy: &Buffer,
    residual: &Buffer,
    dx: &Buffer,
    rows: usize,
    cols: usize,
) -> Result<(), KernelError> {
    launch_backward_input(device, x, weight, stats, dy, Some(residual), dx, rows, cols)
}

#[allow(clippy::too_many_arguments)] // As above.
fn launch_backward_input(
    device: &Device,
    x: &Buffer,
    weight: &Buffer,
    stats: &Buffer,
    dy: &Buffer,
    residual: Option<&Buffer>,
    dx: &Buffer,
    rows: usize,
    cols: usize,
) -> Result<(), KernelError> {
    let kernel = NormBackwardInput {
        name: "rms_norm_backward_input",
        streamed: &backward_input::SHADER,
        held: &backward_input_held::SHADER,
        x,
        weight,
        stats,
        n_stats: 1,
        dy,
        residual,
        dx,
        rows,
        cols,
    };
    kernel.launch(device, backward_rows)
}

/// Computes the shards' `dweight`; with `accumulate` the chains go on from the stored values, otherwise
/// they are overwritten.
///
/// `x`, `dy`: `[shards * rows_per_shard, cols]`; `stats`: `[rows]`; `dweight`: `[shards, cols]`.
///
/// # Errors
/// As [`rms_norm_forward`].
#[allow(clippy::too_many_arguments)] // As above.
pub fn rms_norm_backward_weight(
    device: &Device,
    x: &Buffer,
    stats: &Buffer,
    dy: &Buffer,
    dweight: &Buffer,
    shards: usize,
    rows_per_shard: usize,
    cols: usize,
    accumulate: bool,
) -> Result<(), KernelError> {
    let name = "rms_norm_backward_weight";
    check_sizes(name, &[shards, rows_per_shard, cols])?;
    let rows = shards * rows_per_shard;
    check_rows(name, rows, cols)?;
    check_len(name, "x", x, [rows, cols])?;
    check_len(name, "stats", stats, rows)?;
    check_len(name, "dy", dy, [rows, cols])?;
    check_len(name, "dweight", dweight, [shards, cols])?;
    let kernel = Columns {
        name,
        shader: &backward_weight::SHADER,
        shards,
        rows_per_shard,
        cols,
        pairs: false,
        accumulate,
    };
    let bindings = [
        Binding::Read(x),
        Binding::Read(stats),
        Binding::Read(dy),
        Binding::ReadWrite(dweight),
    ];
    kernel.launch(device, &bindings, move |b| {
        let ([x, stats, dy], [dweight]) = b.split();
        if !accumulate {
            dweight.fill(0.0);
        }
        let elements = rows_per_shard * cols;
        let blocks = dweight
            .par_chunks_mut(cols)
            .enumerate()
            .flat_map(|(shard, sums)| {
                sums.par_chunks_mut(BLOCK)
                    .enumerate()
                    .map(move |(block, sums)| (shard, block, sums))
            });
        blocks.for_each(|(shard, block, sums)| {
            let rows = shard * elements..(shard + 1) * elements;
            let stats = &stats[shard * rows_per_shard..(shard + 1) * rows_per_shard];
            weight_block(
                &x[rows.clone()],
                stats,
                &dy[rows],
                sums,
                cols,
                block * BLOCK,
            );
        });
    })
}

/// Columns of one task of the CPU.
const BLOCK: usize = 128;

multiversion! {
    /// A few rows of the forward; their number is `stats.len()`.
    pub(crate) fn forward_rows<A>(x: &[f32], weight: &[f32], y: &mut [f32], stats: &mut [f32], eps: f32) {
        let cols = weight.len();
        let rows = x.chunks_exact(cols).zip(y.chunks_exact_mut(cols));
        for ((x, y), stats) in rows.zip(stats) {
            let square = arith::div(lanes::sum([x], |[x]| A::mul(x, x)), cols as f32);
            let rstd = arith::div(1.0, arith::sqrt(square + eps));
            normed_row::<A>(x, rstd, weight, y);
            *stats = rstd;
        }
    }
}

multiversion! {
    /// A few rows of the forward again, from their statistics.
    pub(crate) fn normed_rows<A>(x: &[f32], stats: &[f32], weight: &[f32], y: &mut [f32]) {
        let cols = weight.len();
        let rows = x.chunks_exact(cols).zip(y.chunks_exact_mut(cols));
        for ((x, y), rstd) in rows.zip(stats) {
            normed_row::<A>(x, *rstd, weight, y);
        }
    }
}

#[inline(always)]
fn normed_row<A: FloatOps>(x: &[f32], rstd: f32, weight: &[f32], y: &mut [f32]) {
    for ((y, &x), &weight) in y.iter_mut().zip(x).zip(weight) {
        *y = A::mul(A::mul(x, rstd), weight);
    }
}

multiversion! {
    /// A few rows of `dx`; their number is `stats.len()`.
    fn backward_rows<A>(x: &[f32], weight: &[f32], stats: &[f32], dy: &[f32], dx: &mut [f32]) {
        let cols = weight.len();
        let rows = x.chunks_exact(cols).zip(dy.chunks_exact(cols));
        let rows = rows.zip(dx.chunks_exact_mut(cols)).zip(stats);
        for (((x, dy), dx), &rstd) in rows {
            let sum = lanes::sum([x, dy, weight], |[x, dy, weight]| {
                A::mul(A::mul(dy, weight), A::mul(x, rstd))
            });
            let b = arith::div(sum, cols as f32);
            for (((dx, &x), &dy), &weight) in dx.iter_mut().zip(x).zip(dy).zip(weight) {
                let normal = A::mul(x, rstd);
                *dx = A::mul(rstd, A::mul(dy, weight) - A::mul(normal, b));
            }
        }
    }
}

multiversion! {
    /// The chains of `sums.len()` columns from `col` on.
    fn weight_block<A>(
        x: &[f32],
        stats: &[f32],
        dy: &[f32],
        sums: &mut [f32],
        cols: usize,
        col: usize,
    ) {
        let width = sums.len();
        let rows = x.chunks_exact(cols).zip(dy.chunks_exact(cols)).zip(stats);
        for ((x, dy), &rstd) in rows {
            let (x, dy) = (&x[col..col + width], &dy[col..col + width]);
            for ((sum, &x), &dy) in sums.iter_mut().zip(x).zip(dy) {
                *sum += A::mul(dy, A::mul(x, rstd));
            }
        }
        for sum in sums {
            *sum = arith::pos0(*sum);
        }
    }
}
