//! Causal self-attention of several heads.

use hlx_autograd::Tensor;

use super::Linear;
use crate::{ParameterBuilder, Result};

/// Projects to queries, keys and values, attends causally in each head, and projects back.
///
/// As `torch.nn.MultiheadAttention` with a causal mask; the packed projection's rows are all
/// heads' queries, then keys, then values.
#[derive(Clone, Debug)]
pub struct MultiHeadAttention {
    /// \[3C, C\], with bias.
    pub qkv: Linear,
    /// \[C, C\], with bias.
    pub out: Linear,
    /// The number of heads; it divides C.
    pub n_heads: usize,
}

impl MultiHeadAttention {
    /// Declares `NAME.qkv` and `NAME.out`; `out_std` is the deviation of the projection back
    /// into the residual stream.
    pub fn new(
        builder: &mut ParameterBuilder,
        name: &str,
        width: usize,
        n_heads: usize,
        [std, out_std]: [f32; 2],
    ) -> Self {
        let qkv = Linear::new(builder, &format!("{name}.qkv"), width, 3 * width, std);
        let out = Linear::new(builder, &format!("{name}.out"), width, width, out_std);
        Self { qkv, out, n_heads }
    }

    /// Applies the layer to \[B, T, C\]; the shape is kept.
    ///
    /// # Errors
    /// An unfitting shape.
    pub fn forward(&self, x: &Tensor) -> Result<Tensor> {
        self.out.forward(&self.attend(x)?)
    }

    /// Applies the layer and adds the result to a residual: the bits of both, in one launch less.
    ///
    /// # Errors
    /// An unfitting shape.
    pub fn forward_add(&self, x: &Tensor, residual: &Tensor) -> Result<Tensor> {
        self.out.forward_add(&self.attend(x)?, residual)
    }

    fn attend(&self, x: &Tensor) -> Result<Tensor> {
        Ok(self.qkv.forward(x)?.attention(self.n_heads)?)
    }
}
