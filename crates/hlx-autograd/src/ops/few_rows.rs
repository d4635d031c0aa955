//! Products of few rows with what comes before and behind them.

use hlx_core::Buffer;
use hlx_kernels::product::{Operand, Prologue, multiply_few};

use super::affine::{Affine, samples_behind};
use crate::{Result, Tensor};

/// What the prologue makes of few rows, through a map, added to a residual.
pub(super) fn few_rows_product(
    x: &Tensor,
    prologue: Option<Prologue<'_>>,
    map: &Affine<'_>,
    residual: Option<&Tensor>,
) -> Result<Tensor> {
    let bias = map.bias.map(Tensor::buffer).transpose()?;
    let added = residual.map(Tensor::buffer).transpose()?;
    multiplied(x, prologue, &map.operand()?, bias.as_ref(), added.as_ref())
}

/// As [`few_rows_product`], with a weight that is ready.
pub(super) fn multiplied(
    x: &Tensor,
    prologue: Option<Prologue<'_>>,
    weight: &Operand,
    bias: Option<&Buffer>,
    added: Option<&Buffer>,
) -> Result<Tensor> {
    let device = x.device();
    let mut shape = x.shape().to_vec();
    let last = shape.len() - 1;
    let rows = x.n_elements() / shape[last];
    shape[last] = weight.vectors();
    let y = device.alloc_shape(&[rows, shape[last]])?;
    multiply_few(device, (&x.buffer()?, prologue), weight, (bias, added), &y)?;
    let y = Tensor::from_buffer(device, y, &shape)?;
    Ok(y.with_samples_of(samples_behind(x)))
}
