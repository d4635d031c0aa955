//! The affine layer.

use hlx_autograd::Tensor;

use crate::{Init, Parameter, ParameterBuilder, Result};

/// Computes y = x Wᵀ + bias over the last dimension, as `torch.nn.Linear`.
#[derive(Clone, Debug)]
pub struct Linear {
    /// \[out, in\].
    pub weight: Parameter,
    /// \[out\].
    pub bias: Option<Parameter>,
}

impl Linear {
    /// Declares `NAME.weight`, normal with the given deviation, and `NAME.bias`, zero.
    pub fn new(
        builder: &mut ParameterBuilder,
        name: &str,
        input: usize,
        output: usize,
        std: f32,
    ) -> Self {
        let mut layer = Self::without_bias(builder, name, input, output, std);
        layer.bias = Some(builder.add(format!("{name}.bias"), &[output], Init::Zeros));
        layer
    }

    /// Declares `NAME.weight` alone.
    pub fn without_bias(
        builder: &mut ParameterBuilder,
        name: &str,
        input: usize,
        output: usize,
        std: f32,
    ) -> Self {
        let init = Init::Normal { std };
        let weight = builder.add(format!("{name}.weight"), &[output, input], init);
        Self { weight, bias: None }
    }

    /// Applies the layer: \[.., in\] to \[.., out\].
    ///
    /// # Errors
    /// An unfitting shape.
    pub fn forward(&self, x: &Tensor) -> Result<Tensor> {
        let (weight, bias) = self.tensors()?;
        Ok(x.linear(weight, bias)?)
    }

    /// Applies the layer and adds the result to a residual: the bits of both, in one launch.
    ///
    /// # Errors
    /// An unfitting shape.
    pub fn forward_add(&self, x: &Tensor, residual: &Tensor) -> Result<Tensor> {
        let (weight, bias) = self.tensors()?;
        Ok(x.linear_add(weight, bias, residual)?)
    }

    /// The weight, and the bias if there is one.
    pub(super) fn tensors(&self) -> Result<(&Tensor, Option<&Tensor>)> {
        let bias = self.bias.as_ref().map(Parameter::tensor).transpose()?;
        Ok((self.weight.tensor()?, bias))
    }
}
