//! RMS normalisation.

use hlx_autograd::Tensor;

use crate::{Init, Mode, Module, Parameter, ParameterBuilder, Result};

/// Divides the last dimensions by the root of their mean square, then applies a gain, as
/// `torch.nn.RMSNorm`.
#[derive(Clone, Debug)]
pub struct RMSNorm {
    /// The last dimensions, which have one mean square.
    pub normalized: Vec<usize>,
    /// The gain, of that shape, ones; or with `one_plus` what it is more than 1, zeros.
    pub weight: Option<Parameter>,
    /// Added to the mean square under the root; PyTorch's default is f32's epsilon, 2^-23.
    pub eps: f32,
    /// Whether the gain is 1 + `weight`.
    pub one_plus: bool,
}

impl RMSNorm {
    /// Declares `weight`; eps is 2^-23.
    pub fn new(builder: &mut ParameterBuilder, normalized: &[usize]) -> Self {
        let weight = builder.parameter("weight", normalized, Init::Ones);
        Self {
            weight: Some(weight),
            ..Self::plain(normalized)
        }
    }

    /// Declares `weight`, zeros, of a norm with the gain 1 + `weight`, as Gemma's.
    pub fn one_plus(builder: &mut ParameterBuilder, normalized: &[usize]) -> Self {
        let weight = builder.parameter("weight", normalized, Init::Zeros);
        Self {
            weight: Some(weight),
            one_plus: true,
            ..Self::plain(normalized)
        }
    }

    /// A norm without gain, as `elementwise_affine=False`.
    pub fn plain(normalized: &[usize]) -> Self {
        Self {
            normalized: normalized.to_vec(),
            weight: None,
            eps: f32::EPSILON,
            one_plus: false,
        }
    }

    /// The norm with another number under the root.
    #[must_use]
    pub fn with_eps(mut self, eps: f32) -> Self {
        self.eps = eps;
        self
    }

    /// The gain, where the norm multiplies by it, and what is added under the root.
    pub(crate) fn plain_gain(&self) -> Result<Option<(Tensor, f32)>> {
        let weight = self.weight.as_ref().filter(|_| !self.one_plus);
        let gain = weight.map(Parameter::tensor).transpose()?;
        Ok(gain.map(|gain| (gain, self.eps)))
    }
}

impl Module for RMSNorm {
    /// The shape stays.
    fn forward(&self, x: &Tensor, _mode: &Mode) -> Result<Tensor> {
        let weight = self.weight.as_ref().map(Parameter::tensor).transpose()?;
        match weight {
            Some(weight) if self.one_plus => {
                Ok(x.rms_norm_one_plus(&self.normalized, &weight, self.eps)?)
            }
            weight => Ok(x.rms_norm(&self.normalized, weight.as_ref(), self.eps)?),
        }
    }
}
