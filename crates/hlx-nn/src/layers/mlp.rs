//! The multilayer perceptron.

use hlx_autograd::{Activation, Tensor};
use hlx_core::Context;

use super::Linear;
use crate::error::NnError;
use crate::{ParameterBuilder, ParameterStore, Result};

/// Affine layers with an activation between them, none after the last: a
/// `torch.nn.Sequential` of `Linear` and activation.
#[derive(Debug)]
pub struct Mlp {
    /// The affine layers, `layers.0` and so on.
    pub layers: Vec<Linear>,
    /// The activation between them.
    pub activation: Activation,
    store: ParameterStore,
}

impl Mlp {
    /// Makes the network with these widths, the input's first and the output's last. Weights are
    /// normal with deviation sqrt(2 / input width) (He and others 2015), biases zero.
    ///
    /// # Errors
    /// [`NnError::Config`] for fewer than two widths or one that is zero, and what the device
    /// reports.
    pub fn new(ctx: &Context, widths: &[usize], activation: Activation, seed: u64) -> Result<Self> {
        if widths.len() < 2 || widths.contains(&0) {
            let reason = format!("widths are {widths:?}, expected two or more, none of them 0");
            return Err(NnError::Config {
                what: "mlp",
                reason,
            });
        }
        let mut builder = ParameterBuilder::new();
        let layer = |(layer_idx, pair): (usize, &[usize])| {
            // Correctly rounded everywhere, as IEEE demands of division and square root.
            let std = (2.0 / pair[0] as f32).sqrt();
            Linear::new(
                &mut builder,
                &format!("layers.{layer_idx}"),
                pair[0],
                pair[1],
                std,
            )
        };
        let layers = widths.windows(2).enumerate().map(layer).collect();
        Ok(Self {
            layers,
            activation,
            store: builder.build(ctx, seed)?,
        })
    }

    /// The parameters.
    pub fn store(&self) -> &ParameterStore {
        &self.store
    }

    /// Applies the network: \[.., first width\] to \[.., last width\].
    ///
    /// # Errors
    /// An unfitting shape.
    pub fn forward(&self, x: &Tensor) -> Result<Tensor> {
        let mut x = x.clone();
        for (layer_idx, layer) in self.layers.iter().enumerate() {
            if layer_idx > 0 {
                x = x.activation(self.activation)?;
            }
            x = layer.forward(&x)?;
        }
        Ok(x)
    }
}
