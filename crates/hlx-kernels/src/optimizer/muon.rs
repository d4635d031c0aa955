//! Muon (Jordan et al. 2024): momentum made orthogonal, for parameters that are matrices.
//!
//! As `torch.optim.Muon`, in f32 throughout (PyTorch's iteration is in bf16). For a matrix of `M` rows
//! and `N` columns:
//!
//! - `m = fma(1 - mu, g - m, m)`; `u = m`, or by Nesterov `u = fma(mu, m - g, g)`;
//! - `x = u / max(norm(u), eps)`, the norm as [`crate::reduce::global_norm`];
//! - as often as [`NewtonSchulz::steps`] says, with `(a, b, c)` its coefficients: `S = x x^T` if
//!   `M <= N`, else `x^T x`; `T = fma(c, S S, b S)`; `x = fma(1, T x, a x)`, or `fma(1, x T, a x)`.
//!   Products are [`matmul`](fn@crate::product::matmul)'s chains;
//! - `p = fma(-lr, x, (1 - lr lambda) p)`.
//!
//! A matrix is computed whole by one device: its products do not split.

use hlx_core::{Binding, Buffer, DType, Device};

use super::formulas::{combine_chunk, muon_apply_chunk, muon_direction_chunk};
use super::frame::{Update, UpdateKernel};
use crate::elementwise::{Binary, Unary, binary, unary};
use crate::error::{Result, check_len};
use crate::layout::{Layout, Operand};
use crate::map::{Arg, Map, chunks1};
use crate::product::{MatMul, matmul};
use crate::reduce::global_norm;

shader!(optimizer::{muon_direction, muon_apply, combine});

/// How a matrix is made nearly orthogonal.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct NewtonSchulz {
    /// Iterations.
    pub steps: u32,
    /// `a`, `b` and `c` of the quintic.
    pub coefficients: [f32; 3],
    /// The least norm that a matrix is divided by.
    pub epsilon: f32,
}

impl Default for NewtonSchulz {
    /// PyTorch's: 5 steps of (3.4445, -4.7750, 2.0315), epsilon 1e-7.
    fn default() -> Self {
        Self {
            steps: 5,
            coefficients: [3.4445, -4.7750, 2.0315],
            epsilon: 1e-7,
        }
    }
}

/// Updates one matrix of `rows` by `cols` elements and its `momentum` (zeros before the first step).
///
/// The numbers of `update` have `beta1` equal to the momentum, and the factor that PyTorch takes from
/// the matrix's shape as their step factor.
///
/// # Errors
/// A shape error if the lengths differ, or the device's error.
pub fn muon_step(
    device: &Device,
    update: &Update<'_>,
    momentum: &Buffer,
    [rows, cols]: [usize; 2],
    nesterov: bool,
    iteration: &NewtonSchulz,
) -> Result<()> {
    check_len("muon_step", "params", update.params, [rows, cols])?;
    if rows * cols == 0 {
        return Ok(());
    }
    let direction = device.alloc_shape(&[rows, cols])?;
    let step = UpdateKernel::new("muon_direction", &muon_direction::SHADER).variant(nesterov);
    let written = [("direction", &direction), ("momentum", momentum)];
    step.launch(device, update, written, move |n, g, [out, m]| {
        muon_direction_chunk(n, nesterov, g, out, m);
    })?;
    let orthogonal = orthogonalize(device, &direction, [rows, cols], iteration)?;
    let apply = UpdateKernel::new("muon_apply", &muon_apply::SHADER);
    let along = Update {
        grads: &orthogonal,
        ..*update
    };
    let written = [("params", update.params)];
    apply.launch(device, &along, written, |n, o, [p]| {
        muon_apply_chunk(n, o, p)
    })
}

/// Returns a nearly orthogonal matrix by Newton and Schulz's iteration: see the module.
fn orthogonalize(
    device: &Device,
    direction: &Buffer,
    [rows, cols]: [usize; 2],
    iteration: &NewtonSchulz,
) -> Result<Buffer> {
    let [a, b, c] = iteration.coefficients;
    let (n, short) = (rows * cols, rows.min(cols));
    let (x, product) = (device.alloc(n)?, device.alloc(n)?);
    let (gram, square) = (
        device.alloc_shape(&[short, short])?,
        device.alloc_shape(&[short, short])?,
    );
    normalize(device, direction, iteration.epsilon, &x)?;
    let wide = rows <= cols;
    let gram_shape = MatMul {
        trans_a: !wide,
        trans_b: wide,
        ..MatMul::new(short, short, rows.max(cols))
    };
    for _ in 0..iteration.steps {
        matmul(device, &x, &x, None, &gram, &gram_shape)?;
        let square_shape = MatMul::new(short, short, short);
        matmul(device, &gram, &gram, None, &square, &square_shape)?;
        combine(device, c, &square, b, &gram)?;
        let (left, right) = if wide { (&gram, &x) } else { (&x, &gram) };
        matmul(
            device,
            left,
            right,
            None,
            &product,
            &MatMul::new(rows, cols, short),
        )?;
        combine(device, 1.0, &product, a, &x)?;
    }
    Ok(x)
}

/// Computes `out = x / max(norm(x), epsilon)`.
fn normalize(device: &Device, x: &Buffer, epsilon: f32, out: &Buffer) -> Result<()> {
    let (norm, divisor) = (device.alloc(1)?, device.alloc(1)?);
    global_norm(device, x, &norm)?;
    let one = Layout::contiguous(&[1])?;
    let of_norm = Operand::new(&norm, &one);
    let bounds = [epsilon, f32::INFINITY];
    unary(device, Unary::Clamp, DType::F32, of_norm, bounds, &divisor)?;
    let all = Layout::contiguous(&[x.len()])?;
    let (x, divisor) = (Operand::new(x, &all), Operand::new(&divisor, &one));
    binary(device, Binary::Div, DType::F32, x, divisor, out)
}

/// Computes `y = fma(alpha, x, beta y)` in place.
fn combine(device: &Device, alpha: f32, x: &Buffer, beta: f32, y: &Buffer) -> Result<()> {
    let map = Map {
        specialization: &[(0, alpha.to_bits()), (1, beta.to_bits())],
        ..Map::new("muon_combine", &combine::SHADER)
    };
    let args = [
        Arg::Each("x", Binding::Read(x)),
        Arg::Each("y", Binding::ReadWrite(y)),
    ];
    map.launch(device, &args, move |bindings| {
        let ([x], [y]) = bindings.split::<1, 1>();
        chunks1(x, y, |x, y| combine_chunk(alpha, beta, x, y));
    })
}

#[cfg(test)]
mod tests;
