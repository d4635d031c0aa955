//! Norms over the last dimension: layer norm, and RMS norm, which leaves the mean and has no bias.
//!
//! Forward, `C = cols`: `mean_r = (sum_c x) / C`, 0 in an RMS norm; `variance_r = (sum_c (x - mean_r)^2) / C` (a
//! second pass over the data); `rstd_r = 1 / sqrt(variance_r + eps)`; `n = (x - mean) rstd`. Then
//! `y = fma(n, weight, bias)`, of an RMS norm `y = n weight`. `stats` keeps mean and rstd, of an RMS norm rstd.
//!
//! Backward, with `g = dy weight`: `dx = rstd ((g - (sum_c g) / C) - n ((sum_c g n) / C))`, of an RMS norm
//! `dx = rstd (g - n ((sum_c g n) / C))`. For the parameters one chain over the rows of each shard in order:
//! `dweight = fma(dy, n, dweight)`, `dbias = dbias + dy`; of an RMS norm `dweight = dweight + dy n`.
//!
//! Row sums have the order of [`lanes`](crate::lanes). A result can also become integers where it is computed:
//! [`prepare_norm`](crate::product::quantised::prepare_norm).
//! PyTorch: `torch.nn.functional.layer_norm`, `torch.nn.functional.rms_norm`.

use hlx_core::{Binding, Buffer, Device, Shader};

use crate::Result;
use crate::columns::Columns;
use crate::error::check_len;
use crate::kernel::Kernel;
use crate::lanes::check_rows;
use crate::rows::Rows;

mod cpu;
#[cfg(test)]
mod tests;

pub(crate) use cpu::{Gain, forward_rows, normed_rows};

shader!(layer_norm::{
    forward as layer_forward, forward_held as layer_forward_held,
    backward_input as layer_backward_input, backward_input_held as layer_backward_held,
    backward_params as layer_backward_params,
});
shader!(rms_norm::{
    forward as rms_forward, forward_held as rms_forward_held, backward_input as rms_backward_input,
    backward_input_held as rms_backward_held, backward_weight as rms_backward_weight,
});

/// The constant of the backward shaders that says whether there is a gradient to add to.
const RESIDUAL_ID: u32 = 4;

/// What a norm is.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Norm {
    /// Rows, each of which is normalised.
    pub rows: usize,
    /// Elements of a row.
    pub cols: usize,
    /// What is added under the root.
    pub eps: f32,
    /// Whether the mean is removed and a bias added: a layer norm, not an RMS norm.
    pub centred: bool,
}

/// The shaders of a kernel: those that read a row for each pass, and those that hold it; of RMS norms and of layer norms.
pub(crate) type Shaders = [[&'static Shader; 2]; 2];

impl Norm {
    /// A layer norm.
    pub const fn layer(rows: usize, cols: usize, eps: f32) -> Self {
        Self {
            rows,
            cols,
            eps,
            centred: true,
        }
    }

    /// An RMS norm.
    pub const fn rms(rows: usize, cols: usize, eps: f32) -> Self {
        Self {
            centred: false,
            ..Self::layer(rows, cols, eps)
        }
    }

    /// How many statistics a row has: mean and rstd, of an RMS norm rstd alone.
    pub const fn n_stats(&self) -> usize {
        1 + self.centred as usize
    }

    /// The rows, and a kernel over them that bears one of two names: an RMS norm's or a layer norm's.
    pub(crate) fn kernel<'a>(
        &self,
        device: &Device,
        names: [&'static str; 2],
        [streamed, held]: &Shaders,
    ) -> Result<(Rows, Kernel<'a>)> {
        let kind = usize::from(self.centred);
        let rows = Rows::new(device, names[kind], self.rows, self.cols)?;
        Ok((rows, rows.kernel(names[kind], streamed[kind], held[kind])))
    }

    /// Checks that the bias, or its gradient, is there in a layer norm alone.
    pub(crate) fn check_bias(
        &self,
        name: &'static str,
        argument: &'static str,
        bias: Option<&Buffer>,
    ) -> Result<()> {
        check_that!(name, bias.is_some() == self.centred =>
            "this norm {verb} {argument}", verb = if self.centred { "needs" } else { "has no" })
    }
}

/// The buffers of [`norm_forward`].
#[derive(Clone, Copy, Debug)]
pub struct NormForward<'a> {
    /// `[rows, cols]`.
    pub x: &'a Buffer,
    /// `[cols]`.
    pub weight: &'a Buffer,
    /// `[cols]`, of a layer norm.
    pub bias: Option<&'a Buffer>,
    /// `[rows, cols]`: overwritten.
    pub y: &'a Buffer,
    /// `[rows, n_stats]`, for the backward kernels: overwritten.
    pub stats: &'a Buffer,
}

/// Computes `y` and the statistics that the backward kernels need.
///
/// # Errors
/// If a buffer has another length, a layer norm has no bias or an RMS norm one, or the launch fails.
pub fn norm_forward(device: &Device, norm: &Norm, buffers: &NormForward<'_>) -> Result<()> {
    const NAMES: [&str; 2] = ["rms_norm_forward", "layer_norm_forward"];
    static SHADERS: Shaders = [
        [&rms_forward::SHADER, &layer_forward::SHADER],
        [&rms_forward_held::SHADER, &layer_forward_held::SHADER],
    ];
    let Norm { rows, cols, .. } = *norm;
    let (row_kernel, kernel) = norm.kernel(device, NAMES, &SHADERS)?;
    norm.check_bias(NAMES[usize::from(norm.centred)], "bias", buffers.bias)?;
    let kernel = kernel
        .read("x", buffers.x, [rows, cols])?
        .read("weight", buffers.weight, cols)?;
    let kernel = match buffers.bias {
        Some(bias) => kernel.read("bias", bias, cols)?,
        None => kernel,
    };
    let of_stats = [rows, norm.n_stats()];
    let kernel = kernel.write("y", buffers.y, [rows, cols])?;
    let kernel = kernel.write("stats", buffers.stats, of_stats)?;
    let (eps, parameters) = (norm.eps, [norm.eps.to_bits()]);
    if norm.centred {
        let body = move |[x, weight, bias]: [&[f32]; 3], [y, stats]: [&mut [f32]; 2]| {
            let bias = Some(bias);
            cpu::forward(x, Gain { weight, bias }, eps, y, stats);
        };
        return row_kernel.launch(device, &kernel, &[], &parameters, body);
    }
    let body = move |[x, weight]: [&[f32]; 2], [y, stats]: [&mut [f32]; 2]| {
        cpu::forward(x, Gain { weight, bias: None }, eps, y, stats);
    };
    row_kernel.launch(device, &kernel, &[], &parameters, body)
}

/// The buffers of [`norm_backward_input`].
#[derive(Clone, Copy, Debug)]
pub struct NormBackwardInput<'a> {
    /// `[rows, cols]`.
    pub x: &'a Buffer,
    /// `[cols]`.
    pub weight: &'a Buffer,
    /// `[rows, n_stats]`, from [`norm_forward`].
    pub stats: &'a Buffer,
    /// `[rows, cols]`.
    pub dy: &'a Buffer,
    /// `[rows, cols]`: another gradient of x, to which this one is added with the bits of an addition after it.
    pub residual: Option<&'a Buffer>,
    /// `[rows, cols]`: overwritten.
    pub dx: &'a Buffer,
}

/// Computes `dx`.
///
/// # Errors
/// If a buffer has another length, or the launch fails.
pub fn norm_backward_input(
    device: &Device,
    norm: &Norm,
    buffers: &NormBackwardInput<'_>,
) -> Result<()> {
    const NAMES: [&str; 2] = ["rms_norm_backward_input", "layer_norm_backward_input"];
    static SHADERS: Shaders = [
        [&rms_backward_input::SHADER, &layer_backward_input::SHADER],
        [&rms_backward_held::SHADER, &layer_backward_held::SHADER],
    ];
    let (matrix, n_stats) = ([norm.rows, norm.cols], norm.n_stats());
    let (row_kernel, kernel) = norm.kernel(device, NAMES, &SHADERS)?;
    let kernel = kernel
        .read("x", buffers.x, matrix)?
        .read("weight", buffers.weight, norm.cols)?
        .read("stats", buffers.stats, [norm.rows, n_stats])?
        .read("dy", buffers.dy, matrix)?
        .read_if("residual", buffers.residual, matrix)?
        .write("dx", buffers.dx, matrix)?;
    let adds = buffers.residual.is_some();
    let constants = [(RESIDUAL_ID, u32::from(adds))];
    row_kernel.launch(device, &kernel, &constants, &[], move |inputs, outputs| {
        let ([x, weight, stats, dy, residual], [dx]) = (inputs, outputs);
        let residual = adds.then_some(residual);
        cpu::backward_input([x, weight, stats, dy], n_stats, residual, dx);
    })
}

/// The buffers of [`norm_backward_params`].
#[derive(Clone, Copy, Debug)]
pub struct NormBackwardParams<'a> {
    /// `[rows, cols]`.
    pub x: &'a Buffer,
    /// `[rows, n_stats]`, from [`norm_forward`].
    pub stats: &'a Buffer,
    /// `[rows, cols]`.
    pub dy: &'a Buffer,
    /// `[shards, cols]`: overwritten, or with `accumulate` gone on from.
    pub dweight: &'a Buffer,
    /// As `dweight`, of a layer norm.
    pub dbias: Option<&'a Buffer>,
    /// Shards of as many rows each.
    pub shards: usize,
    /// Whether the chains go on from the stored values.
    pub accumulate: bool,
}

/// Computes the shards' `dweight` and `dbias`.
///
/// # Errors
/// As [`norm_forward`], and if the shards do not divide the rows.
pub fn norm_backward_params(
    device: &Device,
    norm: &Norm,
    buffers: &NormBackwardParams<'_>,
) -> Result<()> {
    let (name, shader) = match norm.centred {
        true => ("layer_norm_backward_params", &layer_backward_params::SHADER),
        false => ("rms_norm_backward_weight", &rms_backward_weight::SHADER),
    };
    let (rows, cols, shards) = (norm.rows, norm.cols, buffers.shards);
    check_rows(name, rows, cols)?;
    check_that!(name, rows.is_multiple_of(shards) =>
        "{rows} rows, expected a multiple of the {shards} shards")?;
    norm.check_bias(name, "dbias", buffers.dbias)?;
    check_len(name, "x", buffers.x, [rows, cols])?;
    check_len(name, "stats", buffers.stats, [rows, norm.n_stats()])?;
    check_len(name, "dy", buffers.dy, [rows, cols])?;
    check_len(name, "dweight", buffers.dweight, [shards, cols])?;
    let mut bindings = vec![
        Binding::Read(buffers.x),
        Binding::Read(buffers.stats),
        Binding::Read(buffers.dy),
        Binding::ReadWrite(buffers.dweight),
    ];
    if let Some(dbias) = buffers.dbias {
        check_len(name, "dbias", dbias, [shards, cols])?;
        bindings.push(Binding::ReadWrite(dbias));
    }
    let kernel = Columns {
        name,
        shader,
        shards,
        rows_per_shard: rows.checked_div(shards).unwrap_or(0),
        cols,
        pairs: norm.centred,
        accumulate: buffers.accumulate,
    };
    let (rows, accumulate, centred) = (kernel.rows_per_shard, kernel.accumulate, norm.centred);
    kernel.launch(device, &bindings, move |bindings| {
        let (read, dweight, dbias) = split_params(centred, bindings);
        if !accumulate {
            dweight.fill(0.0);
            dbias.fill(0.0);
        }
        cpu::backward_params(read, dweight, dbias, [rows, cols]);
    })
}

/// x, stats and dy, dweight, and dbias, which is empty in an RMS norm.
fn split_params<'b>(
    centred: bool,
    bindings: &'b mut hlx_core::CpuBindings<'_>,
) -> ([&'b [f32]; 3], &'b mut [f32], &'b mut [f32]) {
    if centred {
        let (read, [dweight, dbias]) = bindings.split();
        return (read, dweight, dbias);
    }
    let (read, [dweight]) = bindings.split();
    (read, dweight, &mut [])
}
