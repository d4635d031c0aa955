//! The multilayer perceptron.

use hlx_autograd::{Activation, Tensor};

use super::Linear;
use crate::error::NnError;
use crate::{Init, Mode, Module, ParameterBuilder, Result};

/// Affine layers with an activation between them, none after the last: a
/// `torch.nn.Sequential` of `Linear` and activation.
#[derive(Clone, Debug)]
pub struct MLP {
    /// The affine layers, `layers.0` and so on.
    pub layers: Vec<Linear>,
    /// The activation between them.
    pub activation: Activation,
}

impl MLP {
    /// Declares the network with these widths, the input's first and the output's last. Weights are
    /// normal with deviation sqrt(2 / input width) (He and others 2015), biases zero.
    ///
    /// # Errors
    /// [`NnError::Config`] for fewer than two widths or one that is zero.
    pub fn new(
        builder: &mut ParameterBuilder,
        widths: &[usize],
        activation: Activation,
    ) -> Result<Self> {
        if widths.len() < 2 || widths.contains(&0) {
            let reason = format!("widths are {widths:?}, expected two or more, none of them 0");
            return Err(NnError::Config {
                what: "mlp",
                reason,
            });
        }
        let layer = |(layer_idx, pair): (usize, &[usize])| {
            // Correctly rounded everywhere, as IEEE demands of division and square root.
            let std = (2.0 / pair[0] as f32).sqrt();
            let mut b = builder.child(format!("layers.{layer_idx}"));
            let init = Init::Normal { std };
            Linear::with_init(&mut b, pair[0], pair[1], init, Some(Init::Zeros))
        };
        let layers = widths.windows(2).enumerate().map(layer).collect();
        Ok(Self { layers, activation })
    }
}

impl Module for MLP {
    /// \[.., first width\] to \[.., last width\].
    fn forward(&self, x: &Tensor, mode: &Mode) -> Result<Tensor> {
        let mut x = x.clone();
        for (layer_idx, layer) in self.layers.iter().enumerate() {
            if layer_idx > 0 {
                x = x.activation(self.activation)?;
            }
            x = layer.forward(&x, mode)?;
        }
        Ok(x)
    }
}
