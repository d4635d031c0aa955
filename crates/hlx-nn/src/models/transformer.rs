//! The transformer: a decoder in the shape of GPT-2, with an output projection of its own.

use hlx_autograd::Tensor;
use hlx_core::Device;

use crate::decoder::pass::Pass;
use crate::decoder::{Block, TransformerConfig};
use crate::error::NnError;
use crate::layers::{Dropout, Embedding, LayerNorm, Linear};
use crate::{
    CacheStep, CausalInput, CausalModel, Init, KvCache, Mode, ModelBuffer, Module,
    ParameterBuilder, Result,
};

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
    /// The ids 0, 1, .. of all positions.
    position_ids: ModelBuffer,
    config: TransformerConfig,
}

impl Transformer {
    /// Declares a transformer.
    ///
    /// # Errors
    /// [`NnError::Config`].
    pub fn new(builder: &mut ParameterBuilder, config: &TransformerConfig) -> Result<Self> {
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
        let init = Init::Normal { std: WEIGHT_STD };
        let b = builder;
        let embedding = |name, rows| Embedding::with_init(&mut b.child(name), rows, width, init);
        let token_embedding = embedding("token_embedding", vocabulary);
        let position_embedding = embedding("position_embedding", positions);
        let position_ids = b.ids("position_ids", (0..positions as u32).collect());
        let embedding_dropout = Dropout::new(b, dropout);
        let blocks = b.child("blocks");
        let blocks = (0..n_layers)
            .map(|block_idx| Block::new(&mut blocks.child(block_idx), config, std))
            .collect();
        let final_norm = LayerNorm::new(&mut b.child("final_norm"), width);
        let output = Linear::with_init(&mut b.child("output"), width, vocabulary, init, None);
        Ok(Self {
            token_embedding,
            position_embedding,
            embedding_dropout,
            blocks,
            final_norm,
            output,
            position_ids,
            config: config.clone(),
        })
    }

    /// Computes the logits of some positions alone, \[n, V\], with the bits of
    /// [`Module::forward`]: `rows` holds the ids b T + t of the positions, \[n\]. The final norm
    /// and the output layer run over n rows instead of B T: for generation, which reads the last
    /// position of each sequence.
    ///
    /// # Errors
    /// As [`Module::forward`].
    pub fn forward_at(&self, ids: &Tensor, mode: &Mode, rows: &Tensor) -> Result<Tensor> {
        self.project(&self.hidden(ids, mode)?, Some(rows), mode)
    }

    /// Computes the residual stream after the last block, \[B, T, C\].
    fn hidden(&self, ids: &Tensor, mode: &Mode) -> Result<Tensor> {
        let mut x = self.embedded(ids, &self.positions_of(ids)?, mode)?;
        for block in &self.blocks {
            x = mode.block(block, &x, Block::forward)?;
        }
        Ok(x)
    }

    /// As [`Transformer::hidden`], and the logits of it, with what a pass says.
    fn compute(&self, ids: &Tensor, rows: Option<&Tensor>, mut pass: Pass<'_>) -> Result<Tensor> {
        let mut x = self.embedded(ids, &pass.positions, pass.mode)?;
        for (block_idx, block) in self.blocks.iter().enumerate() {
            x = pass.block(block, &x, move |block, x, pass| {
                block.forward_in(x, pass, block_idx)
            })?;
        }
        self.project(&x, rows, pass.mode)
    }

    /// The sum of token and position embedding.
    fn embedded(&self, ids: &Tensor, positions: &Tensor, mode: &Mode) -> Result<Tensor> {
        let tokens = self.token_embedding.forward(ids, mode)?;
        let positions = self.position_embedding.forward(positions, mode)?;
        self.embedding_dropout
            .forward(&tokens.add(&positions)?, mode)
    }

    /// The logits of the residual stream \[B, T, C\], or of some rows of it.
    fn project(&self, x: &Tensor, rows: Option<&Tensor>, mode: &Mode) -> Result<Tensor> {
        let x = match rows {
            Some(rows) => rows.embedding(&x.flatten(0, 1)?)?,
            None => x.clone(),
        };
        self.output
            .forward(&self.final_norm.forward(&x, mode)?, mode)
    }

    /// The position of every token, \[B, T\], with the samples where those of the ids are.
    fn positions_of(&self, ids: &Tensor) -> Result<Tensor> {
        let limit = self.config.positions;
        let &[batch, time] = ids.shape() else {
            return Err(unfitting(ids, limit));
        };
        if time > limit {
            return Err(unfitting(ids, limit));
        }
        let positions = self.position_ids.tensor()?.narrow(0, 0, time)?;
        Ok(positions.expand(&[batch, time])?.with_samples(0)?)
    }

    /// The sizes.
    pub fn config(&self) -> &TransformerConfig {
        &self.config
    }
}

fn unfitting(ids: &Tensor, positions: usize) -> NnError {
    NnError::Shape {
        op: "transformer",
        argument: "ids",
        found: ids.shape().to_vec(),
        expected: format!("[batch, time] with at most {positions} positions"),
    }
}

impl Module for Transformer {
    /// Computes the logits: the ids \[B, T\] to \[B, T, V\].
    ///
    /// In training, the mode must stay at one counter until the backward pass is done. Ids must be
    /// below the vocabulary. A sequence's logits do not depend on the others in the batch, nor on what
    /// follows a position. To evaluate, call it within [`no_grad`](hlx_autograd::no_grad): nothing is
    /// saved for a backward pass then.
    ///
    /// # Errors
    /// [`NnError::Shape`] if the ids have another number of dimensions or exceed the positions.
    fn forward(&self, ids: &Tensor, mode: &Mode) -> Result<Tensor> {
        self.project(&self.hidden(ids, mode)?, None, mode)
    }
}

impl CausalModel for Transformer {
    fn vocabulary(&self) -> usize {
        self.config.vocabulary
    }

    fn max_positions(&self) -> usize {
        self.config.positions
    }

    fn logits(&self, input: &CausalInput<'_>, mode: &Mode) -> Result<Tensor> {
        match (input.rows, input.documents.or(input.positions)) {
            (None, None) => self.forward(input.ids, mode),
            (Some(rows), None) => self.forward_at(input.ids, mode, rows),
            (rows, Some(_)) => {
                let pass = Pass::of_input(input, mode, &self.position_ids.tensor()?)?;
                self.compute(input.ids, rows, pass)
            }
        }
    }

    fn cache(&self, device: &Device, batch: usize, capacity: usize) -> Result<KvCache> {
        let (width, n_heads) = (self.config.width, self.config.n_heads);
        let heads = [n_heads, width / n_heads];
        KvCache::new(device, self.config.n_layers, [batch, capacity], heads)
    }

    fn logits_of_step(
        &self,
        ids: &Tensor,
        rows: Option<&Tensor>,
        step: CacheStep<'_>,
    ) -> Result<Tensor> {
        let mode = Mode::eval();
        self.compute(ids, rows, Pass::of_cache(step, &mode))
    }
}
