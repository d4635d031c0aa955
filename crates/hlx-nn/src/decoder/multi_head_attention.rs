//! Causal self-attention of several heads.

use hlx_autograd::{AttentionSpec, Tensor};

use super::cache::HeadSteps;
use super::pass::Pass;
use crate::error::NnError;
use crate::layers::{Dropout, Linear};
use crate::{Init, Mode, Module, ParameterBuilder, Result};

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
    /// Of the attention weights, in training.
    pub weight_dropout: Option<Dropout>,
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
            qkv: linear("qkv", width.saturating_mul(3), std),
            out: linear("out", width, out_std),
            n_heads,
            weight_dropout: None,
        }
    }

    /// Drops attention weights with probability `p` in training, as `dropout` of
    /// `torch.nn.MultiheadAttention`.
    #[must_use]
    pub fn with_weight_dropout(self, builder: &mut ParameterBuilder, p: f32) -> Self {
        // A place is taken only where something is dropped: other dropouts keep their masks.
        let weight_dropout = (p > 0.0).then(|| Dropout::new(builder, p));
        Self {
            weight_dropout,
            ..self
        }
    }

    /// Applies the layer and adds the result to a residual: the bits of both, in one launch less.
    ///
    /// # Errors
    /// An unfitting shape.
    pub fn forward_add(&self, x: &Tensor, residual: &Tensor, mode: &Mode) -> Result<Tensor> {
        self.out.forward_add(&self.attend(x, mode)?, residual)
    }

    /// Causal attention, with the dropout of its weights.
    fn causal(&self, mode: &Mode) -> Result<AttentionSpec> {
        let dropout = self.weight_dropout.as_ref();
        let mask = dropout.map(|dropout| dropout.mask(mode)).transpose()?;
        Ok(AttentionSpec {
            dropout: mask.flatten(),
            ..AttentionSpec::causal()
        })
    }

    /// What the heads give, \[B, T, C\], before the projection back.
    pub(crate) fn attend(&self, x: &Tensor, mode: &Mode) -> Result<Tensor> {
        let qkv = self.qkv.forward(x, mode)?;
        Ok(qkv.packed_attention(self.n_heads, &self.causal(mode)?)?)
    }

    /// As [`MultiHeadAttention::attend`], with the documents and the cache of a pass.
    pub(crate) fn attend_in(
        &self,
        x: &Tensor,
        pass: &mut Pass<'_>,
        layer_idx: usize,
    ) -> Result<Tensor> {
        let qkv = self.qkv.forward(x, pass.mode)?;
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
        let [q, k, v] = [qkv.select(2, 0)?, qkv.select(2, 1)?, qkv.select(2, 2)?];
        let causal = self.causal(pass.mode)?;
        let y = match pass.cache() {
            Some(step) => step.attend(layer_idx, [&q, &k, &v], &HeadSteps::default(), causal)?,
            None => {
                let documents = pass.documents().cloned();
                q.attention(
                    &k,
                    &v,
                    &AttentionSpec {
                        documents,
                        ..causal
                    },
                )?
            }
        };
        Ok(y.flatten(2, 3)?)
    }
}

impl Module for MultiHeadAttention {
    /// \[B, T, C\]; the shape is kept.
    fn forward(&self, x: &Tensor, mode: &Mode) -> Result<Tensor> {
        self.out.forward(&self.attend(x, mode)?, mode)
    }
}
