//! The transformer: a decoder in the shape of GPT-2, with an output projection of its own.

mod config;

use hlx_autograd::Tensor;
use hlx_core::Context;

pub use config::TransformerConfig;

use crate::error::NnError;
use crate::layers::{Block, Dropout, Embedding, LayerNorm, Linear};
use crate::{ForwardContext, ParameterBuilder, ParameterStore, Result};

/// The deviation of ordinary weights (Radford and others 2019, GPT-2).
const WEIGHT_STD: f32 = 0.02;

/// A causal language model: token and position embedding, pre-norm blocks, a final norm, and an
/// output projection without bias that is not tied to the embedding.
///
/// Weights are normal with deviation 0.02, those that project back into the residual stream with
/// 0.02 / sqrt(2 layers), so that its variance does not grow with depth; biases are 0, gains 1.
#[derive(Debug)]
pub struct Transformer {
    /// \[V, C\].
    pub token_embedding: Embedding,
    /// \[positions, C\].
    pub position_embedding: Embedding,
    /// After their sum.
    pub embedding_dropout: Dropout,
    /// The blocks.
    pub blocks: Vec<Block>,
    /// After the last block.
    pub final_norm: LayerNorm,
    /// \[V, C\], without bias.
    pub output: Linear,
    config: TransformerConfig,
    store: ParameterStore,
}

impl Transformer {
    /// Makes a transformer and draws its weights from the seed.
    ///
    /// # Errors
    /// [`NnError::Config`], and what the device reports.
    pub fn new(ctx: &Context, config: &TransformerConfig, seed: u64) -> Result<Self> {
        Self::declare(config, |builder| builder.build(ctx, seed))
    }

    /// Makes a transformer of zeros, for weights that come from a file.
    ///
    /// # Errors
    /// As [`Transformer::new`].
    pub fn zeroed(ctx: &Context, config: &TransformerConfig) -> Result<Self> {
        Self::declare(config, |builder| builder.build_zeroed(ctx))
    }

    fn declare(
        config: &TransformerConfig,
        build: impl FnOnce(ParameterBuilder) -> Result<ParameterStore>,
    ) -> Result<Self> {
        config.validate()?;
        let &TransformerConfig {
            vocabulary,
            width,
            n_layers,
            positions,
            dropout,
            ..
        } = config;
        // Division and square root are correctly rounded everywhere: the same bits on any host.
        let std = [WEIGHT_STD, WEIGHT_STD / ((2 * n_layers) as f32).sqrt()];
        let mut builder = ParameterBuilder::new();
        let b = &mut builder;
        let token_embedding = Embedding::new(b, "token_embedding", vocabulary, width, WEIGHT_STD);
        let position_embedding =
            Embedding::new(b, "position_embedding", positions, width, WEIGHT_STD);
        let blocks = (0..n_layers)
            .map(|block_idx| Block::new(b, &format!("blocks.{block_idx}"), config, block_idx, std))
            .collect();
        let final_norm = LayerNorm::new(b, "final_norm", width);
        let output = Linear::without_bias(b, "output", width, vocabulary, WEIGHT_STD);
        Ok(Self {
            token_embedding,
            position_embedding,
            embedding_dropout: Dropout::new(dropout, 0),
            blocks,
            final_norm,
            output,
            config: config.clone(),
            store: build(builder)?,
        })
    }

    /// Computes the logits: the ids \[B, T\] to \[B, T, V\].
    ///
    /// `context` is made for this B and T; with dropout turned on it must stay at one counter
    /// until the backward pass is done. Ids must be below the vocabulary. A sequence's logits do
    /// not depend on the others in the batch, nor on what follows a position. To evaluate, call
    /// it within [`no_grad`](hlx_autograd::no_grad): nothing is saved for a backward pass then.
    ///
    /// # Errors
    /// [`NnError::Shape`] if the ids do not have the context's shape or exceed the positions.
    pub fn forward(&self, ids: &Tensor, context: &ForwardContext) -> Result<Tensor> {
        let x = self.hidden(ids, context)?;
        self.output.forward(&self.final_norm.forward(&x)?)
    }

    /// Computes the logits of some positions alone, \[n, V\], with the bits of
    /// [`Transformer::forward`]: `rows` holds the ids b T + t of the positions, \[n\]. The final norm
    /// and the output layer run over n rows instead of B T: for generation, which reads the last
    /// position of each sequence.
    ///
    /// # Errors
    /// As [`Transformer::forward`].
    pub fn forward_at(
        &self,
        ids: &Tensor,
        context: &ForwardContext,
        rows: &Tensor,
    ) -> Result<Tensor> {
        let x = self.hidden(ids, context)?;
        let stream = [context.batch() * context.time(), self.config.width];
        let x = rows.embedding(&x.reshape(&stream)?)?;
        self.output.forward(&self.final_norm.forward(&x)?)
    }

    /// Computes the residual stream after the last block, \[B, T, C\].
    fn hidden(&self, ids: &Tensor, context: &ForwardContext) -> Result<Tensor> {
        let (batch, time) = (context.batch(), context.time());
        if ids.shape() != [batch, time] || time > self.config.positions {
            let expected = format!(
                "[{batch}, {time}] and at most {} positions",
                self.config.positions
            );
            let found = ids.shape().to_vec();
            return Err(NnError::Shape {
                op: "transformer",
                argument: "ids",
                found,
                expected,
            });
        }
        let tokens = self.token_embedding.forward(ids)?;
        let positions = self.position_embedding.forward(context.positions())?;
        let mut x = self
            .embedding_dropout
            .forward(&tokens.add(&positions)?, context)?;
        for block in &self.blocks {
            x = block.forward(&x, context)?;
        }
        Ok(x)
    }

    /// The sizes.
    pub fn config(&self) -> &TransformerConfig {
        &self.config
    }

    /// The parameters.
    pub fn store(&self) -> &ParameterStore {
        &self.store
    }
}
