//! A perceptron for rows of numbers: the smallest model that all programs of a comparison can train.

use hlx_autograd::Tensor;
use hlx_nn::{Linear, Mode, Module, ParameterBuilder, Result};

/// The sizes of an [`Mlp`].
#[derive(Clone, Copy, Debug)]
pub struct MlpConfig {
    /// The widths of the input, the hidden layers and the output.
    pub widths: [usize; 4],
}

impl MlpConfig {
    /// That of digits of 28 by 28 pixels.
    pub const DEFAULT: Self = Self {
        widths: [784, 512, 512, 10],
    };

    /// Operations of a training step: each product once forward and twice backward, except for the
    /// gradient of the inputs, which nobody wants.
    pub fn flops(&self, batch: usize) -> f64 {
        let [inputs, hidden, ..] = self.widths;
        let pairs = self.widths.windows(2);
        let products: usize = pairs.map(|pair| pair[0] * pair[1]).sum();
        (6 * products - 2 * inputs * hidden) as f64 * batch as f64
    }
}

/// Rows \[B, 784\] to logits \[B, 10\]: affine layers with ReLU between them.
pub struct Mlp {
    layers: Vec<Linear>,
}

impl Mlp {
    /// Declares the network.
    pub fn new(b: &mut ParameterBuilder, config: &MlpConfig) -> Self {
        let pairs = config.widths.windows(2).enumerate();
        let layer = |(place, pair): (usize, &[usize])| {
            Linear::new(&mut b.child(format!("layers.{place}")), pair[0], pair[1])
        };
        Self {
            layers: pairs.map(layer).collect(),
        }
    }
}

impl Module for Mlp {
    fn forward(&self, x: &Tensor, mode: &Mode) -> Result<Tensor> {
        let mut x = x.clone();
        for (place, layer) in self.layers.iter().enumerate() {
            x = layer.forward(&x, mode)?;
            if place + 1 < self.layers.len() {
                x = x.relu()?;
            }
        }
        Ok(x)
    }
}
