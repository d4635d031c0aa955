//! Layer normalisation.

use hlx_autograd::{DType, Tensor};

use crate::{Init, Mode, Module, Parameter, ParameterBuilder, Result};

/// Normalises the last dimensions to mean 0 and variance 1, then applies gain and bias, as
/// `torch.nn.LayerNorm`.
#[derive(Clone, Debug)]
pub struct LayerNorm {
    /// The last dimensions, which have one mean and one variance.
    pub normalized: Vec<usize>,
    /// The gain, of that shape, ones.
    pub weight: Option<Parameter>,
    /// Of that shape, zeros.
    pub bias: Option<Parameter>,
    /// Added to the variance under the root; PyTorch's default is 1e-5.
    pub eps: f32,
}

impl LayerNorm {
    /// Declares `weight` and `bias` of a norm over the last dimension; eps is 1e-5.
    pub fn new(builder: &mut ParameterBuilder, width: usize) -> Self {
        Self::over(builder, &[width])
    }

    /// As [`LayerNorm::new`], over several dimensions: PyTorch's `normalized_shape`.
    pub fn over(builder: &mut ParameterBuilder, normalized: &[usize]) -> Self {
        let mut norm = Self::without_bias(builder, normalized);
        norm.bias = Some(builder.parameter("bias", normalized, Init::Zeros));
        norm
    }

    /// A norm with a gain alone, as `bias=False`.
    pub fn without_bias(builder: &mut ParameterBuilder, normalized: &[usize]) -> Self {
        Self {
            weight: Some(builder.parameter("weight", normalized, Init::Ones)),
            ..Self::plain(normalized)
        }
    }

    /// A norm without gain and bias, as `elementwise_affine=False`.
    pub fn plain(normalized: &[usize]) -> Self {
        Self {
            normalized: normalized.to_vec(),
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

impl Module for LayerNorm {
    /// The shape stays.
    fn forward(&self, x: &Tensor, _mode: &Mode) -> Result<Tensor> {
        let shape = &self.normalized;
        let weight = match &self.weight {
            Some(weight) => weight.tensor()?,
            None => Tensor::ones(x.device(), shape, DType::F32)?,
        };
        let bias = match &self.bias {
            Some(bias) => bias.tensor()?,
            None => Tensor::zeros(x.device(), shape, DType::F32)?,
        };
        Ok(x.layer_norm(&weight, &bias, self.eps)?)
    }
}
