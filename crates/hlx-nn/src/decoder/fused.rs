//! Products of a few tokens with what comes before and behind them in one launch, for generation: the bits of
//! the layers that compute them one by one.

use hlx_autograd::Tensor;
use hlx_kernels::product::{Epilogue, FloatProduct, MatMul, Prologue, can_fuse};

use crate::layers::Linear;
use crate::{Parameter, Result};

/// An RMS norm that multiplies by its gain: the gain, and what is added under the root.
pub(super) type PlainNorm = (Tensor, f32);

/// Whether a pass over x, \[.., C\], has so few rows that the products here are one launch each.
pub(super) fn is_of_few_rows(x: &Tensor) -> bool {
    let width = x.shape().last().copied().unwrap_or(1);
    can_fuse(x.device(), x.n_elements().checked_div(width).unwrap_or(0))
}

/// Applies linear layers without adapters to the norm of x, side by side in the last dimension: as one product
/// where their weights lie behind each other and there are no biases; otherwise none.
pub(super) fn normed_side_by_side(
    x: &Tensor,
    norm: &PlainNorm,
    linears: &[&Linear],
) -> Result<Option<Tensor>> {
    match joined(linears)? {
        Some(weight) => Ok(Some(normed_product(x, norm, &weight, None)?)),
        None => Ok(None),
    }
}

/// Applies a linear layer without an adapter to the norm of x.
pub(super) fn normed_linear(x: &Tensor, norm: &PlainNorm, linear: &Linear) -> Result<Tensor> {
    normed_product(x, norm, &linear.weight.tensor()?, linear.bias.as_ref())
}

fn normed_product(
    x: &Tensor,
    (gain, eps): &PlainNorm,
    weight: &Tensor,
    bias: Option<&Parameter>,
) -> Result<Tensor> {
    let gain = gain.buffer()?;
    let prologue = Prologue::RmsNorm {
        gain: &gain,
        eps: *eps,
    };
    product(x, prologue, (weight, bias), None)
}

/// The weights \[N, K\] of several layers without biases as one \[all N, K\], if they lie so in memory.
fn joined(linears: &[&Linear]) -> Result<Option<Tensor>> {
    let weights = linears.iter().map(|linear| linear.weight.tensor());
    let weights = weights.collect::<Result<Vec<_>>>()?;
    let [first, rest @ ..] = &weights[..] else {
        return Ok(None);
    };
    let k = first.shape()[1];
    let mut window = first.buffer()?;
    for weight in rest {
        let (next, held) = (weight.buffer()?, window.len());
        match window.through(&next) {
            Some(longer) if longer.len() == held + next.len() && weight.shape()[1] == k => {
                window = longer;
            }
            _ => return Ok(None),
        }
    }
    if linears.iter().any(|linear| linear.bias.is_some()) {
        return Ok(None);
    }
    let n = window.len() / k.max(1);
    Ok(Some(Tensor::from_buffer(first.device(), window, &[n, k])?))
}

/// Applies a linear layer without an adapter to silu(gate) up, and adds the result to a residual.
pub(super) fn gated_linear_add(
    [gate, up]: [&Tensor; 2],
    linear: &Linear,
    residual: &Tensor,
) -> Result<Tensor> {
    let up = up.buffer()?;
    let weight = linear.weight.tensor()?;
    let affine = (&weight, linear.bias.as_ref());
    product(gate, Prologue::Gated { up: &up }, affine, Some(residual))
}

fn product(
    x: &Tensor,
    prologue: Prologue<'_>,
    (weight, bias): (&Tensor, Option<&Parameter>),
    residual: Option<&Tensor>,
) -> Result<Tensor> {
    let device = x.device();
    let bias = match bias {
        Some(bias) => Some(bias.tensor()?.buffer()?),
        None => None,
    };
    let residual = residual.map(Tensor::buffer).transpose()?;
    let (k, n) = (weight.shape()[1], weight.shape()[0]);
    let rows = x.n_elements() / k.max(1);
    let shape = MatMul {
        trans_b: true,
        ..MatMul::new(rows, n, k)
    };
    let y = device.alloc_shape(&[rows, n])?;
    let epilogue = residual.as_ref().map_or(Epilogue::None, Epilogue::Add);
    FloatProduct {
        bias: bias.as_ref(),
        prologue: Some(prologue),
        epilogue,
        ..FloatProduct::new([&x.buffer()?, &weight.buffer()?], &y, shape)
    }
    .run(device)?;
    let mut extents = x.shape().to_vec();
    if let Some(last) = extents.last_mut() {
        *last = n;
    }
    Ok(Tensor::from_buffer(device, y, &extents)?)
}
