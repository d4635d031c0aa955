//! A block of the transformer.

use hlx_autograd::Tensor;

use super::{Dropout, FeedForward, LayerNorm, MultiHeadAttention};
use crate::{ForwardContext, ParameterBuilder, Result, TransformerConfig};

/// Computes x + dropout(attention(norm(x))), then x + dropout(feed_forward(norm(x))): the
/// pre-norm block of GPT-2.
#[derive(Clone, Debug)]
pub struct Block {
    /// Before the attention.
    pub attention_norm: LayerNorm,
    /// The attention.
    pub attention: MultiHeadAttention,
    /// After it.
    pub attention_dropout: Dropout,
    /// Before the feed-forward network.
    pub feed_forward_norm: LayerNorm,
    /// The network.
    pub feed_forward: FeedForward,
    /// After it.
    pub feed_forward_dropout: Dropout,
}

impl Block {
    /// Declares block `block_idx` of a transformer, as `NAME.attention_norm`, `NAME.attention`,
    /// `NAME.feed_forward_norm` and `NAME.feed_forward`. `std` holds the deviations of the
    /// weights and of the two projections back into the residual stream.
    pub fn new(
        builder: &mut ParameterBuilder,
        name: &str,
        config: &TransformerConfig,
        block_idx: usize,
        std: [f32; 2],
    ) -> Self {
        let TransformerConfig {
            width,
            n_heads,
            feed_forward_width,
            dropout,
            ..
        } = *config;
        let place_idx = 1 + 2 * block_idx as u32;
        let sub = |part: &str| format!("{name}.{part}");
        let attention_norm = LayerNorm::new(builder, &sub("attention_norm"), width);
        let attention = MultiHeadAttention::new(builder, &sub("attention"), width, n_heads, std);
        let feed_forward_norm = LayerNorm::new(builder, &sub("feed_forward_norm"), width);
        let feed_forward = FeedForward::new(
            builder,
            &sub("feed_forward"),
            width,
            feed_forward_width,
            std,
        );
        Self {
            attention_norm,
            attention,
            attention_dropout: Dropout::new(dropout, place_idx),
            feed_forward_norm,
            feed_forward,
            feed_forward_dropout: Dropout::new(dropout, place_idx + 1),
        }
    }

    /// Applies the block to \[B, T, C\]; the shape is kept.
    ///
    /// # Errors
    /// An unfitting shape.
    pub fn forward(&self, x: &Tensor, context: &ForwardContext) -> Result<Tensor> {
        let normed = self.attention_norm.forward(x)?;
        let x = if self.attention_dropout.is_active(context) {
            let branch = self.attention.forward(&normed)?;
            x.add(&self.attention_dropout.forward(&branch, context)?)?
        } else {
            self.attention.forward_add(&normed, x)?
        };
        let normed = self.feed_forward_norm.forward(&x)?;
        if self.feed_forward_dropout.is_active(context) {
            let branch = self.feed_forward.forward(&normed)?;
            return Ok(x.add(&self.feed_forward_dropout.forward(&branch, context)?)?);
        }
        self.feed_forward.forward_add(&normed, &x)
    }
}
