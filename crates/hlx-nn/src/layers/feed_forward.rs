//! The two-layer network of a transformer's block.

use hlx_autograd::Tensor;

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
        let hidden = self.up.forward(x)?.gelu()?;
        self.down.forward(&hidden)
    }
}
