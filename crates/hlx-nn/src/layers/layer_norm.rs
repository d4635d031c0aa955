//! Layer normalisation.

use hlx_autograd::Tensor;

use crate::{Init, Parameter, ParameterBuilder, Result};

/// Normalises the last dimension to mean 0 and variance 1, then applies gain and bias, as
/// `torch.nn.LayerNorm`.
#[derive(Clone, Debug)]
pub struct LayerNorm {
    /// The gain, \[C\].
    pub weight: Parameter,
    /// \[C\].
    pub bias: Parameter,
    /// Added to the variance under the root; PyTorch's default is 1e-5.
    pub eps: f32,
}

impl LayerNorm {
    /// Declares `NAME.weight`, ones, and `NAME.bias`, zeros; eps is 1e-5.
    pub fn new(builder: &mut ParameterBuilder, name: &str, width: usize) -> Self {
        let weight = builder.add(format!("{name}.weight"), &[width], Init::Ones);
        let bias = builder.add(format!("{name}.bias"), &[width], Init::Zeros);
        Self {
            weight,
            bias,
            eps: 1e-5,
        }
    }

    /// Applies the layer; the shape is kept.
    ///
    /// # Errors
    /// An unfitting shape.
    pub fn forward(&self, x: &Tensor) -> Result<Tensor> {
        Ok(x.layer_norm(self.weight.tensor()?, self.bias.tensor()?, self.eps)?)
    }
}
