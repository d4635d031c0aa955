//! Group normalisation.

use hlx_autograd::Tensor;

use super::{declare_gain_and_bias, gain_and_bias};
use crate::{Mode, Module, Parameter, ParameterBuilder, Result};

/// Normalises groups of a sample's channels to mean 0 and variance 1, then applies gain and bias of each
/// channel, as `torch.nn.GroupNorm`.
#[derive(Clone, Debug)]
pub struct GroupNorm {
    /// The groups; they divide the channels.
    pub groups: usize,
    /// The gain, \[C\], ones.
    pub weight: Option<Parameter>,
    /// \[C\], zeros.
    pub bias: Option<Parameter>,
    /// Added to the variance under the root; PyTorch's default is 1e-5.
    pub eps: f32,
}

impl GroupNorm {
    /// Declares `weight` and `bias`; eps is 1e-5.
    pub fn new(builder: &mut ParameterBuilder, groups: usize, channels: usize) -> Self {
        let [weight, bias] = declare_gain_and_bias(builder, channels).map(Some);
        Self {
            weight,
            bias,
            ..Self::plain(groups)
        }
    }

    /// A norm without gain and bias, as `affine=False`.
    pub fn plain(groups: usize) -> Self {
        Self {
            groups,
            weight: None,
            bias: None,
            eps: 1e-5,
        }
    }

    /// The norm with another number under the root.
    #[must_use]
    pub fn with_eps(mut self, eps: f32) -> Self {
        self.eps = eps;
        self
    }
}

impl Module for GroupNorm {
    /// \[N, C, ..\]; the shape stays.
    fn forward(&self, x: &Tensor, _mode: &Mode) -> Result<Tensor> {
        let affine = gain_and_bias(self.weight.as_ref(), self.bias.as_ref())?;
        let affine = affine.as_ref().map(|[weight, bias]| [weight, bias]);
        Ok(x.group_norm(self.groups, affine, self.eps)?)
    }
}
