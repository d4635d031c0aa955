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

use hlx_core::{Binding, Buffer, Context, Launch, groups_1d, push_bytes};
use rayon::prelude::*;

use crate::KernelError;
use crate::columns::ColumnGroup;
use crate::error::check_len;
use crate::lanes::{ROWS_A_GROUP, RowGroup, check_rows, rows_a_task};

mod cpu;
#[cfg(test)]
mod tests;

shader!(forward, "layer_norm/forward");
shader!(backward_input, "layer_norm/backward_input");
shader!(forward_held, "layer_norm/forward_held");
shader!(backward_input_held, "layer_norm/backward_input_held");
shader!(backward_params, "layer_norm/backward_params");

/// Computes `y` and the statistics that the backward needs; overwrites `y` and `stats`.
///
/// `x`, `y`: `[rows, cols]`; `weight`, `bias`: `[cols]`; `stats`: `[rows, 2]`, mean and rstd.
///
/// # Errors
/// If a buffer has another length, or the launch fails.
#[allow(clippy::too_many_arguments)] // One kernel's buffers and shape, flat as everywhere here.
pub fn layer_norm_forward(
    ctx: &Context,
    x: &Buffer,
    weight: &Buffer,
    bias: &Buffer,
    y: &Buffer,
    stats: &Buffer,
    rows: usize,
    cols: usize,
    eps: f32,
) -> Result<(), KernelError> {
    let name = "layer_norm_forward";
    check_rows(name, rows, cols)?;
    check_len(name, "x", x, rows * cols)?;
    check_len(name, "weight", weight, cols)?;
    check_len(name, "bias", bias, cols)?;
    check_len(name, "y", y, rows * cols)?;
    check_len(name, "stats", stats, rows * 2)?;
    let bindings = [
        Binding::Read(x),
        Binding::Read(weight),
        Binding::Read(bias),
        Binding::Write(y),
        Binding::Write(stats),
    ];
    let push = forward::Push {
        rows: rows as u32,
        cols: cols as u32,
        eps,
    };
    let mut launch = Launch {
        name,
        shader: &forward::SHADER,
        specialization: &[],
        bindings: &bindings,
        push: push_bytes(&push),
        groups: groups_1d(rows.div_ceil(ROWS_A_GROUP)),
    };
    let held = RowGroup::held(ctx, cols).map(|group| (group.specialization(cols), group));
    if let Some((constants, group)) = &held {
        launch.shader = &forward_held::SHADER;
        launch.specialization = constants;
        launch.groups = group.groups(rows);
    }
    ctx.launch(launch, move |b| {
        let ([x, weight, bias], [y, stats]) = b.split();
        let rows = rows_a_task(cols);
        (
            x.par_chunks(rows * cols),
            y.par_chunks_mut(rows * cols),
            stats.par_chunks_mut(rows * 2),
        )
            .into_par_iter()
            .for_each(|(x, y, stats)| cpu::forward_rows(x, weight, bias, y, stats, eps));
    })?;
    Ok(())
}

/// Computes `dx`; overwrites it.
///
/// `x`, `dy`, `dx`: `[rows, cols]`; `weight`: `[cols]`; `stats`: `[rows, 2]`, from the forward.
///
/// # Errors
/// As [`layer_norm_forward`].
#[allow(clippy::too_many_arguments)] // As above.
pub fn layer_norm_backward_input(
    ctx: &Context,
    x: &Buffer,
    weight: &Buffer,
    stats: &Buffer,
    dy: &Buffer,
    dx: &Buffer,
    rows: usize,
    cols: usize,
) -> Result<(), KernelError> {
    launch_backward_input(ctx, x, weight, stats, dy, None, dx, rows, cols)
}

/// As [`layer_norm_backward_input`], on top of a gradient that has reached x another way:
/// `dx = residual + ..`, the bits of an addition after it.
///
/// # Errors
/// As [`layer_norm_forward`].
#[allow(clippy::too_many_arguments)] // As above.
pub fn layer_norm_backward_input_add(
    ctx: &Context,
    x: &Buffer,
    weight: &Buffer,
    stats: &Buffer,
    dy: &Buffer,
    residual: &Buffer,
    dx: &Buffer,
    rows: usize,
    cols: usize,
) -> Result<(), KernelError> {
    launch_backward_input(ctx, x, weight, stats, dy, Some(residual), dx, rows, cols)
}

/// The constant of both backward shaders that says whether there is a gradient to add to.
const RESIDUAL_ID: u32 = 4;

#[allow(clippy::too_many_arguments)] // As above.
fn launch_backward_input(
    ctx: &Context,
    x: &Buffer,
    weight: &Buffer,
    stats: &Buffer,
    dy: &Buffer,
    residual: Option<&Buffer>,
    dx: &Buffer,
    rows: usize,
    cols: usize,
) -> Result<(), KernelError> {
    let name = "layer_norm_backward_input";
    check_rows(name, rows, cols)?;
    check_len(name, "x", x, rows * cols)?;
    check_len(name, "weight", weight, cols)?;
    check_len(name, "stats", stats, rows * 2)?;
    check_len(name, "dy", dy, rows * cols)?;
    check_len(name, "dx", dx, rows * cols)?;
    let adds = residual.is_some();
    // Without, the binding holds something that is not read.
    let residual = residual.unwrap_or(dy);
    check_len(name, "residual", residual, rows * cols)?;
    let bindings = [
        Binding::Read(x),
        Binding::Read(weight),
        Binding::Read(stats),
        Binding::Read(dy),
        Binding::Read(residual),
        Binding::Write(dx),
    ];
    let push = backward_input::Push {
        rows: rows as u32,
        cols: cols as u32,
    };
    let mut launch = Launch {
        name,
        shader: &backward_input::SHADER,
        specialization: &[(RESIDUAL_ID, u32::from(adds))],
        bindings: &bindings,
        push: push_bytes(&push),
        groups: groups_1d(rows.div_ceil(ROWS_A_GROUP)),
    };
    let held = RowGroup::held(ctx, cols).map(|group| {
        let [local, cols, threads, group_rows] = group.specialization(cols);
        let residual = (RESIDUAL_ID, u32::from(adds));
        ([local, cols, threads, group_rows, residual], group)
    });
    if let Some((constants, group)) = &held {
        launch.shader = &backward_input_held::SHADER;
        launch.specialization = constants;
        launch.groups = group.groups(rows);
    }
    ctx.launch(launch, move |b| {
        let ([x, weight, stats, dy, residual], [dx]) = b.split();
        let rows = rows_a_task(cols);
        (
            x.par_chunks(rows * cols),
            stats.par_chunks(rows * 2),
            dy.par_chunks(rows * cols),
            residual.par_chunks(rows * cols),
            dx.par_chunks_mut(rows * cols),
        )
            .into_par_iter()
            .for_each(|(x, stats, dy, residual, dx)| {
                cpu::backward_input_rows(x, weight, stats, dy, dx);
                if adds {
                    cpu::add_residual(residual, dx);
                }
            });
    })?;
    Ok(())
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
    ctx: &Context,
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
    let rows = shards * rows_per_shard;
    check_rows(name, rows, cols)?;
    check_len(name, "x", x, rows * cols)?;
    check_len(name, "stats", stats, rows * 2)?;
    check_len(name, "dy", dy, rows * cols)?;
    check_len(name, "dweight", dweight, shards * cols)?;
    check_len(name, "dbias", dbias, shards * cols)?;
    let push = backward_params::Push {
        shards: shards as u32,
        rows_per_shard: rows_per_shard as u32,
        cols: cols as u32,
    };
    let group = ColumnGroup::new(ctx, shards, cols, true);
    let launch = Launch {
        name,
        shader: &backward_params::SHADER,
        specialization: &group.specialization(accumulate),
        bindings: &[
            Binding::Read(x),
            Binding::Read(stats),
            Binding::Read(dy),
            Binding::ReadWrite(dweight),
            Binding::ReadWrite(dbias),
        ],
        push: push_bytes(&push),
        groups: group.groups(shards, cols),
    };
    ctx.launch(launch, move |b| {
        let ([x, stats, dy], [dweight, dbias]) = b.split();
        let shape = (rows_per_shard, cols);
        cpu::backward_params(x, stats, dy, dweight, dbias, shape, accumulate);
    })?;
    Ok(())
}
