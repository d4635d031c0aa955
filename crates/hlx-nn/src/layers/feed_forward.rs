//! The two-layer network of a transformer's block.

use hlx_autograd::{Activation, Tensor};

use super::Linear;
use crate::{Init, Mode, Module, ParameterBuilder, Result};

/// Computes down(gelu(up(x))) with the exact GELU, the default of `torch.nn.GELU`.
#[derive(Clone, Debug)]
pub struct FeedForward {
    /// \[F, C\], with bias.
    pub up: Linear,
    /// \[C, F\], with bias.
    pub down: Linear,
}

impl FeedForward {
    /// Declares `up` and `down`, weights normal and biases 0; `down_std` is the deviation of the
    /// projection back into the residual stream.
    pub fn new(
        builder: &mut ParameterBuilder,
        width: usize,
        feed_forward_width: usize,
        [std, down_std]: [f32; 2],
    ) -> Self {
        let linear = |name, [input, output]: [usize; 2], std| {
            let init = Init::Normal { std };
            Linear::with_init(
                &mut builder.child(name),
                input,
                output,
                init,
                Some(Init::Zeros),
            )
        };
        Self {
            up: linear("up", [width, feed_forward_width], std),
            down: linear("down", [feed_forward_width, width], down_std),
        }
    }

    /// Applies the layer and adds the result to a residual: the bits of both, in one launch less.
    ///
    /// # Errors
    /// An unfitting shape.
    pub fn forward_add(&self, x: &Tensor, residual: &Tensor) -> Result<Tensor> {
        self.apply(x, Some(residual))
    }

    fn apply(&self, x: &Tensor, residual: Option<&Tensor>) -> Result<Tensor> {
        if self.up.lora.is_some() || self.down.lora.is_some() {
            return self.apply_apart(x, residual);
        }
        let (up, down) = (self.up.tensors()?, self.down.tensors()?);
        let up = (&up.0, up.1.as_ref());
        let down = (&down.0, down.1.as_ref());
        Ok(x.feed_forward(up, Activation::GELU, down, residual)?)
    }

    /// As [`FeedForward::apply`], layer by layer, which may have adapters.
    fn apply_apart(&self, x: &Tensor, residual: Option<&Tensor>) -> Result<Tensor> {
        let mode = Mode::eval();
        let inner = self.up.forward(x, &mode)?.gelu()?;
        match residual {
            Some(residual) => self.down.forward_add(&inner, residual),
            None => self.down.forward(&inner, &mode),
        }
    }
}

impl Module for FeedForward {
    /// \[.., C\]; the shape is kept.
    fn forward(&self, x: &Tensor, _mode: &Mode) -> Result<Tensor> {
        self.apply(x, None)
    }
}
