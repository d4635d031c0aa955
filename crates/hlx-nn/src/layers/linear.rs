//! The affine layer.

use hlx_autograd::Tensor;

use super::lora::LowRank;
use super::weight_and_bias;
use crate::{Init, Mode, Module, Parameter, ParameterBuilder, Result};

/// Computes y = x Wᵀ + bias over the last dimension, as `torch.nn.Linear`.
#[derive(Clone, Debug)]
pub struct Linear {
    /// \[out, in\].
    pub weight: Parameter,
    /// \[out\].
    pub bias: Option<Parameter>,
    /// What a [`LoraConfig`](crate::LoraConfig) of the builder adds.
    pub lora: Option<LowRank>,
}

impl Linear {
    /// Declares `weight` and `bias`, both uniform within +-1 / sqrt(input), as PyTorch does.
    pub fn new(builder: &mut ParameterBuilder, input: usize, output: usize) -> Self {
        let init = Init::uniform_of(input);
        Self::with_init(builder, input, output, init, Some(init))
    }

    /// As [`Linear::new`], with initial values of one's own; without `bias` there is none.
    pub fn with_init(
        builder: &mut ParameterBuilder,
        input: usize,
        output: usize,
        weight: Init,
        bias: Option<Init>,
    ) -> Self {
        let weight = builder.parameter("weight", &[output, input], weight);
        let weight = weight.of_product();
        let bias = bias.map(|bias| builder.parameter("bias", &[output], bias));
        let lora = LowRank::declare(builder, input, output);
        Self { weight, bias, lora }
    }

    /// Applies the layer and adds the result to a residual: the bits of both, in one launch.
    ///
    /// # Errors
    /// An unfitting shape.
    pub fn forward_add(&self, x: &Tensor, residual: &Tensor, mode: &Mode) -> Result<Tensor> {
        let (weight, bias) = self.tensors()?;
        match &self.lora {
            Some(lora) => lora.apply(x, (&weight, bias.as_ref()), Some(residual), mode),
            None => Ok(x.linear_add(&weight, bias.as_ref(), residual)?),
        }
    }

    /// The weight, and the bias if there is one; the adapter is not in them.
    pub(crate) fn tensors(&self) -> Result<(Tensor, Option<Tensor>)> {
        weight_and_bias(&self.weight, self.bias.as_ref())
    }
}

impl Module for Linear {
    /// \[.., in\] to \[.., out\].
    fn forward(&self, x: &Tensor, mode: &Mode) -> Result<Tensor> {
        let (weight, bias) = self.tensors()?;
        match &self.lora {
            Some(lora) => lora.apply(x, (&weight, bias.as_ref()), None, mode),
            None => Ok(x.linear(&weight, bias.as_ref())?),
        }
    }
}
