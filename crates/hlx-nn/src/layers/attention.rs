//! Causal self-attention of several heads.

use hlx_autograd::{AttentionSpec, Tensor};

use super::Linear;
use crate::causal::Pass;
use crate::error::NnError;
use crate::{ForwardContext, Init, Members, Module, ParameterBuilder, Result};

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
    /// Declares `qkv` and `out`, weights normal and biases 0; `out_std` is the deviation of the
    /// projection back into the residual stream.
    pub fn new(
        builder: &mut ParameterBuilder,
        width: usize,
        n_heads: usize,
        [std, out_std]: [f32; 2],
    ) -> Self {
        let linear = |name, output, std| {
            let init = Init::Normal { std };
            Linear::with_init(
                &mut builder.child(name),
                width,
                output,
                init,
                Some(Init::Zeros),
            )
        };
        Self {
            qkv: linear("qkv", 3 * width, std),
            out: linear("out", width, out_std),
            n_heads,
        }
    }

    /// Applies the layer and adds the result to a residual: the bits of both, in one launch less.
    ///
    /// # Errors
    /// An unfitting shape.
    pub fn forward_add(
        &self,
        x: &Tensor,
        residual: &Tensor,
        context: &ForwardContext,
    ) -> Result<Tensor> {
        self.out.forward_add(&self.attend(x, context)?, residual)
    }

    /// What the heads give, \[B, T, C\], before the projection back.
    pub(crate) fn attend(&self, x: &Tensor, context: &ForwardContext) -> Result<Tensor> {
        let qkv = self.qkv.forward(x, context)?;
        let causal = AttentionSpec::causal();
        Ok(qkv.packed_attention(self.n_heads, &causal)?)
    }

    /// As [`MultiHeadAttention::attend`], with the documents and the cache of a pass.
    pub(crate) fn attend_in(
        &self,
        x: &Tensor,
        pass: &mut Pass<'_>,
        layer_idx: usize,
    ) -> Result<Tensor> {
        let qkv = self.qkv.forward(x, pass.context)?;
        let &[batch, time, packed] = qkv.shape() else {
            let expected = "[batch, time, width]".to_owned();
            let (op, argument, found) = ("attention", "x", x.shape().to_vec());
            return Err(NnError::Shape {
                op,
                argument,
                found,
                expected,
            });
        };
        let heads = [batch, time, 3, self.n_heads, packed / 3 / self.n_heads];
        let qkv = qkv.reshape(&heads)?;
        let new = [qkv.select(2, 1)?, qkv.select(2, 2)?];
        let causal = AttentionSpec::causal();
        let ([k, v], spec) = pass.keys_of(layer_idx, new, causal)?;
        Ok(qkv.select(2, 0)?.attention(&k, &v, &spec)?.flatten(2, 3)?)
    }
}

impl Module for MultiHeadAttention {
    fn members(&self) -> Members {
        Members::of(&[&self.qkv, &self.out])
    }

    /// \[B, T, C\]; the shape is kept.
    fn forward(&self, x: &Tensor, context: &ForwardContext) -> Result<Tensor> {
        self.out.forward(&self.attend(x, context)?, context)
    }
}
