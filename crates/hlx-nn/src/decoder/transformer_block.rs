//! A block of the transformer.

use hlx_autograd::Tensor;

use super::pass::Pass;
use super::{MultiHeadAttention, TransformerConfig};
use crate::layers::{Dropout, FeedForward, LayerNorm};
use crate::{Mode, Module, ParameterBuilder, Result};

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
    /// Declares a block of a transformer: `attention_norm`, `attention`, `feed_forward_norm` and
    /// `feed_forward`. `std` holds the deviations of the weights and of the two projections back into
    /// the residual stream.
    pub fn new(builder: &mut ParameterBuilder, config: &TransformerConfig, std: [f32; 2]) -> Self {
        let TransformerConfig {
            width,
            n_heads,
            feed_forward_width,
            dropout,
            attention_dropout,
            ..
        } = *config;
        let b = builder;
        let attention_norm = LayerNorm::new(&mut b.child("attention_norm"), width);
        let attention = MultiHeadAttention::new(&mut b.child("attention"), width, n_heads, std)
            .with_weight_dropout(b, attention_dropout);
        let feed_forward_norm = LayerNorm::new(&mut b.child("feed_forward_norm"), width);
        let mut inner = b.child("feed_forward");
        Self {
            attention_norm,
            attention,
            attention_dropout: Dropout::new(b, dropout),
            feed_forward_norm,
            feed_forward: FeedForward::new(&mut inner, width, feed_forward_width, std),
            feed_forward_dropout: Dropout::new(b, dropout),
        }
    }

    /// As [`Module::forward`], with the positions, documents and cache of a pass; `layer_idx` is the
    /// block's number in the cache.
    pub(crate) fn forward_in(
        &self,
        x: &Tensor,
        pass: &mut Pass<'_>,
        layer_idx: usize,
    ) -> Result<Tensor> {
        let mode = pass.mode;
        let attend = |normed: &Tensor| self.attention.attend_in(normed, pass, layer_idx);
        self.forward_with(x, mode, attend)
    }

    fn forward_with(
        &self,
        x: &Tensor,
        mode: &Mode,
        attend: impl FnOnce(&Tensor) -> Result<Tensor>,
    ) -> Result<Tensor> {
        let attended = attend(&self.attention_norm.forward(x, mode)?)?;
        let out = &self.attention.out;
        let x = if self.attention_dropout.is_active(mode) {
            let branch = out.forward(&attended, mode)?;
            x.add(&self.attention_dropout.forward(&branch, mode)?)?
        } else {
            out.forward_add(&attended, x)?
        };
        let normed = self.feed_forward_norm.forward(&x, mode)?;
        if self.feed_forward_dropout.is_active(mode) {
            let branch = self.feed_forward.forward(&normed, mode)?;
            return Ok(x.add(&self.feed_forward_dropout.forward(&branch, mode)?)?);
        }
        self.feed_forward.forward_add(&normed, &x)
    }
}

impl Module for Block {
    /// \[B, T, C\]; the shape is kept.
    fn forward(&self, x: &Tensor, mode: &Mode) -> Result<Tensor> {
        self.forward_with(x, mode, |normed| self.attention.attend(normed, mode))
    }
}
