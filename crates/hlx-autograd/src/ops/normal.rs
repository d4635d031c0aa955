//! Normalisation made of operations: the derivatives of the norms in passes that are recorded, and the
//! gain and bias of a channel.

use crate::samples::Samples;
use crate::{Backward, Input, Result, Tensor};

/// What a norm does: dimensions with joint statistics, and the number under the root.
#[derive(Clone, Copy, Debug)]
pub(super) struct Norm<'a> {
    /// The dimensions that share a mean and a variance.
    pub dims: &'a [isize],
    pub eps: f32,
    /// Whether the mean is subtracted; RMS norm leaves it.
    pub centred: bool,
}

impl Norm<'_> {
    /// Computes n = (x - mean) rstd and rstd, whose dimensions stay with extent 1.
    fn normalised(self, x: &Tensor) -> Result<[Tensor; 2]> {
        let x = match self.centred {
            true => x.sub(x.mean_dim(self.dims, true)?)?,
            false => x.clone(),
        };
        let square = x.square()?.mean_dim(self.dims, true)?;
        let rstd = square.add(self.eps)?.sqrt()?.reciprocal()?;
        Ok([x.mul(&rstd)?, rstd])
    }

    /// Computes n, and the gradient of x from that of n: rstd (g - mean(g) - n mean(g n)).
    pub fn slope(self, x: &Tensor, g: &Tensor) -> Result<[Tensor; 2]> {
        let [normal, rstd] = self.normalised(x)?;
        let along = g.mul(&normal)?.mean_dim(self.dims, true)?;
        let around = match self.centred {
            true => g.sub(g.mean_dim(self.dims, true)?)?,
            false => g.clone(),
        };
        let dx = rstd.mul(around.sub(normal.mul(along)?)?)?;
        Ok([normal, dx])
    }
}

/// Values of channels, as a view that lies beside \[N, C, ..\] with `rank` dimensions.
pub(super) fn beside(values: &Tensor, rank: usize) -> Result<Tensor> {
    values.reshape(&channel_shape(values.n_elements(), rank))
}

/// \[C, 1, ..\]: the channels below the samples' dimension.
fn channel_shape(channels: usize, rank: usize) -> Vec<usize> {
    let mut shape = vec![1; rank.saturating_sub(1)];
    if let Some(first) = shape.first_mut() {
        *first = channels;
    }
    shape
}

/// Adds the gradients of a channel's gain and bias, those of y = n gain + bias.
pub(super) fn add_affine_gradients(
    pass: &mut Backward<'_>,
    [gain, bias]: [&Input; 2],
    [dy, normal]: [&Tensor; 2],
    samples: Samples,
) -> Result<()> {
    let shape = channel_shape(gain.n_elements(), dy.rank());
    if gain.requires_grad() {
        pass.add_expanded(gain, &shape, &dy.mul(normal)?, samples)?;
    }
    if bias.requires_grad() {
        pass.add_expanded(bias, &shape, dy, samples)?;
    }
    Ok(())
}
