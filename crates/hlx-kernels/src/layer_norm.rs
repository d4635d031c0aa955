//! Layer norm over the last dimension, with gain and bias.
//!
//! Forward, `C = cols`: `mean_r = (sum_c x) / C`, `variance_r = (sum_c (x - mean_r)^2) / C` (a
//! second pass over the data), `rstd_r = 1 / sqrt(variance_r + eps)`,
//! `y[r, c] = fma((x[r, c] - mean_r) * rstd_r, weight[c], bias[c])`; `stats` keeps mean and rstd.
//!
//! Backward, with `n = (x - mean) * rstd` and `g = dy * weight`:
//! `dx = rstd * ((g - (sum_c g) / C) - n * ((sum_c g n) / C))`; for the parameters one chain over
//! the rows of each shard in order: `dweight = fma(dy, n, dweight)`, `dbias = dbias + dy`.
//!
//! Shapes: `x`, `y`, `dx`, `dy` `[rows, C]`; `weight`, `bias` `[C]`; `stats` `[rows, 2]`;
//! `dweight`, `dbias` `[shards, C]`. Row sums have the order of [`lanes`](crate::lanes).
//! PyTorch: `torch.nn.functional.layer_norm`.

use hlx_core::{Binding, Buffer, Device};
use rayon::prelude::*;

use crate::KernelError;
use crate::columns::Columns;
use crate::error::{check_len, check_sizes};
use crate::lanes::{check_rows, rows_a_task};
use crate::rows::{NormBackwardInput, RowArg, Rows};

mod cpu;
#[cfg(test)]
mod tests;

pub(crate) use cpu::{forward_rows, normed_rows};

shader!(forward, layer_norm::forward);
shader!(backward_input, layer_norm::backward_input);
shader!(forward_held, layer_norm::forward_held);
shader!(backward_input_held, layer_norm::backward_input_held);
shader!(backward_params, layer_norm::backward_params);

/// Computes `y` and the statistics that the backward needs; overwrites `y` and `stats`.
///
/// `x`, `y`: `[rows, cols]`; `weight`, `bias`: `[cols]`; `stats`: `[rows, 2]`, mean and rstd.
///
/// # Errors
/// If a buffer has another length, or the launch fails.
#[allow(clippy::too_many_arguments)] // One kernel's buffers and shape, flat as everywhere here.
pub fn layer_norm_forward(
    device: &Device,
    x: &Buffer,
    weight: &Buffer,
    bias: &Buffer,
    y: &Buffer,
    stats: &Buffer,
    rows: usize,
    cols: usize,
    eps: f32,
) -> Result<(), KernelError> {
    let kernel = Rows {
        name: "layer_norm_forward",
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
        RowArg::Columns("bias", bias),
        RowArg::Rows("y", Binding::Write(y)),
        RowArg::PerRow("stats", Binding::Write(stats), 2),
    ];
    kernel.launch(device, &args, move |b| {
        let ([x, weight, bias], [y, stats]) = b.split();
        let rows = rows_a_task(cols);
        (
            x.par_chunks(rows * cols),
            y.par_chunks_mut(rows * cols),
            stats.par_chunks_mut(rows * 2),
        )
            .into_par_iter()
            .for_each(|(x, y, stats)| cpu::forward_rows(x, weight, bias, y, stats, eps));
    })
}

/// Computes `dx`; overwrites it.
///
/// `x`, `dy`, `dx`: `[rows, cols]`; `weight`: `[cols]`; `stats`: `[rows, 2]`, from the forward.
///
/// # Errors
/// As [`layer_norm_forward`].
#[allow(clippy::too_many_arguments)] // As above.
pub fn layer_norm_backward_input(
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

/// As [`layer_norm_backward_input`], plus another gradient of x, such as a residual's:
/// `dx = residual + ..`, the bits of an addition after it.
///
/// # Errors
/// As [`layer_norm_forward`].
#[allow(clippy::too_many_arguments)] // As above.
pub fn layer_norm_backward_input_add(
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
        name: "layer_norm_backward_input",
        streamed: &backward_input::SHADER,
        held: &backward_input_held::SHADER,
        x,
        weight,
        stats,
        n_stats: 2,
        dy,
        residual,
        dx,
        rows,
        cols,
    };
    kernel.launch(device, cpu::backward_input_rows)
}

/// Computes the shards' `dweight` and `dbias`; with `accumulate` the chains go on from the stored
/// values, otherwise both are overwritten.
///
/// `x`, `dy`: `[shards * rows_per_shard, cols]`; `stats`: `[rows, 2]`; `dweight`, `dbias`:
/// `[shards, cols]`.
///
/// # Errors
/// As [`layer_norm_forward`].
#[allow(clippy::too_many_arguments)] // As above.
pub fn layer_norm_backward_params(
    device: &Device,
    x: &Buffer,
    stats: &Buffer,
    dy: &Buffer,
    dweight: &Buffer,
    dbias: &Buffer,
    shards: usize,
    rows_per_shard: usize,
    cols: usize,
    accumulate: bool,
) -> Result<(), KernelError> {
    let name = "layer_norm_backward_params";
    check_sizes(name, &[shards, rows_per_shard, cols])?;
    let rows = shards * rows_per_shard;
    check_rows(name, rows, cols)?;
    check_len(name, "x", x, [rows, cols])?;
    check_len(name, "stats", stats, [rows, 2])?;
    check_len(name, "dy", dy, [rows, cols])?;
    check_len(name, "dweight", dweight, [shards, cols])?;
    check_len(name, "dbias", dbias, [shards, cols])?;
    let kernel = Columns {
        name,
        shader: &backward_params::SHADER,
        shards,
        rows_per_shard,
        cols,
        pairs: true,
        accumulate,
    };
    let bindings = [
        Binding::Read(x),
        Binding::Read(stats),
        Binding::Read(dy),
        Binding::ReadWrite(dweight),
        Binding::ReadWrite(dbias),
    ];
    kernel.launch(device, &bindings, move |b| {
        let ([x, stats, dy], [dweight, dbias]) = b.split();
        let shape = (rows_per_shard, cols);
        cpu::backward_params(x, stats, dy, dweight, dbias, shape, accumulate);
    })
}
