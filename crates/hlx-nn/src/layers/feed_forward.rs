//! The two-layer network of a transformer's block.

use hlx_autograd::{Activation, Tensor};

use super::Linear;
use crate::{ParameterBuilder, Result};

/// Computes down(gelu(up(x))) with the exact GELU, the default of `torch.nn.GELU`.
#[derive(Clone, Debug)]
pub struct FeedForward {
    /// \[F, C\], with bias.
    pub up: Linear,
    /// \[C, F\], with bias.
    pub down: Linear,
}

impl FeedForward {
    /// Declares `NAME.up` and `NAME.down`; `down_std` is the deviation of the projection back
    /// into the residual stream.
    pub fn new(
        builder: &mut ParameterBuilder,
        name: &str,
        width: usize,
        feed_forward_width: usize,
        [std, down_std]: [f32; 2],
    ) -> Self {
        let up = Linear::new(
            builder,
            &format!("{name}.up"),
            width,
            feed_forward_width,
            std,
        );
        let down = Linear::new(
            builder,
            &format!("{name}.down"),
            feed_forward_width,
            width,
            down_std,
        );
        Self { up, down }
    }

    /// Applies the layer to \[.., C\]; the shape is kept.
    ///
    /// # Errors
    /// An unfitting shape.
    pub fn forward(&self, x: &Tensor) -> Result<Tensor> {
        self.apply(x, None)
    }

    /// Applies the layer and adds the result to a residual: the bits of both, in one launch less.
    ///
    /// # Errors
    /// An unfitting shape.
    pub fn forward_add(&self, x: &Tensor, residual: &Tensor) -> Result<Tensor> {
        self.apply(x, Some(residual))
    }

    fn apply(&self, x: &Tensor, residual: Option<&Tensor>) -> Result<Tensor> {
        let (up, down) = (self.up.tensors()?, self.down.tensors()?);
        Ok(x.feed_forward(up, Activation::Gelu, down, residual)?)
    }
}
