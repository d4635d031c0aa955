//! The causal language model.

use hlx_autograd::{DType, Tensor};
use hlx_core::Device;
use hlx_kernels::attention::CachedHeads;

use super::balance::balance_loss;
use super::causal_model::CausalModel;
use crate::decoder::input::{shape_of, unfitting};
use crate::decoder::norm::Norm;
use crate::decoder::pass::Pass;
use crate::decoder::{Block, CacheStep, CausalConfig, CausalInput, PagePool, Positions, Rotary};
use crate::error::NnError;
use crate::layers::{Dropout, Embedding, Linear};
use crate::{Init, Mode, ModelBuffer, Module, ParameterBuilder, ParameterUse, Result};

/// A causal language model of any [`CausalConfig`], such as Llama, Qwen or Gemma.
///
/// Its parameters have the names of Hugging Face's Llama (`model.layers.0.self_attn.q_proj.weight`); of the
/// [packed layout](crate::ParameterLayout) HLX's own (`blocks.0.attention.qkv.weight`).
/// Weights are normal with deviation 0.02, those that project back into the residual stream with
/// 0.02 / sqrt(2 layers); biases are 0, gains 1.
#[derive(Debug)]
pub struct CausalLm {
    embedding: Embedding,
    /// Learned positions, or the table of the sinusoidal ones.
    positions: PositionTable,
    embedding_dropout: Dropout,
    blocks: Vec<Block>,
    final_norm: Norm,
    output: Output,
    /// The ids 0, 1, .. of all positions.
    counted: ModelBuffer,
    config: CausalConfig,
}

/// The projection to logits.
#[derive(Debug)]
enum Output {
    Free(Linear),
    /// The embedding's table.
    Tied(ParameterUse),
}

#[derive(Debug)]
enum PositionTable {
    Learned(Embedding),
    Sinusoidal(ModelBuffer),
    Rotary,
}

impl CausalLm {
    /// Declares a model.
    ///
    /// # Errors
    /// [`NnError::Config`](crate::NnError::Config).
    pub fn new(builder: &mut ParameterBuilder, config: &CausalConfig) -> Result<Self> {
        config.validate()?;
        let (width, n_layers) = (config.width, config.n_layers);
        let [std, _] = config.deviations();
        let init = Init::Normal { std };
        let names = config.layout.names();
        let b = builder;
        let table = |name, rows| Embedding::with_init(&mut b.child(name), rows, width, init);
        let embedding = table(names.embedding, config.vocabulary);
        let limit = config.max_positions;
        let positions = match config.positions {
            Positions::Learned => PositionTable::Learned(table(names.positions, limit)),
            Positions::Sinusoidal => {
                let values = sinusoids(limit, width);
                PositionTable::Sinusoidal(b.constant("sinusoids", values))
            }
            Positions::Rotary(_) => PositionTable::Rotary,
        };
        let counted = b.ids("counted", (0..limit as u32).collect());
        let embedding_dropout = Dropout::new(b, config.dropout);
        let list = b.child(names.blocks);
        let block = |layer_idx| Block::declare(&mut list.child(layer_idx), config, layer_idx);
        let blocks = (0..n_layers).map(block).collect();
        let final_norm = Norm::new(&mut b.child(names.final_norm), config, width);
        let output = match config.tied_output {
            true => Output::Tied(b.another_use(&embedding.weight.clone().of_product())),
            false => {
                let mut b = b.child(names.output);
                let output = Linear::with_init(&mut b, width, config.vocabulary, init, None);
                Output::Free(output)
            }
        };
        Ok(Self {
            embedding,
            positions,
            embedding_dropout,
            blocks,
            final_norm,
            output,
            counted,
            config: config.clone(),
        })
    }

    /// The shape.
    pub fn config(&self) -> &CausalConfig {
        &self.config
    }

    /// The device of its parameters.
    ///
    /// # Errors
    /// [`NnError::NotBuilt`](crate::NnError::NotBuilt).
    pub fn device(&self) -> Result<Device> {
        Ok(self.embedding.weight.tensor()?.device().clone())
    }

    /// The bytes of a page of keys and values ([`PagePool`]) on a device.
    pub fn page_bytes(&self, device: &Device) -> u64 {
        let heads = [self.config.n_kv_heads, self.config.head_width];
        self.config.n_layers as u64 * CachedHeads::page_bytes(device, heads)
    }

    /// 1 for each of the first `lengths` tokens of a row, 0 for the padding behind them: \[B, T, 1\].
    fn tokens(&self, input: &CausalInput<'_>, lengths: &Tensor) -> Result<Tensor> {
        let (batch, time) = shape_of(input.ids, self.config.max_positions)?;
        if lengths.shape() != [batch] {
            return Err(unfitting("lengths", lengths, format!("[{batch}]")));
        }
        let places = self.counted.tensor()?.narrow(0, 0, time)?;
        let is_token = places.lt(lengths.reshape(&[batch, 1])?)?;
        Ok(is_token.to_dtype(DType::F32)?.reshape(&[batch, time, 1])?)
    }

    /// Computes what the projection to logits reads, behind the final norm: \[B, T, C\], or \[n, C\] of `rows`. It
    /// is `last_hidden_state` of the library `transformers`.
    ///
    /// # Errors
    /// As [`CausalModel::logits`].
    pub fn hidden(&self, input: &CausalInput<'_>, mode: &Mode) -> Result<Tensor> {
        let mut pass = Pass::of_input(input, mode, &self.counted.tensor()?)?;
        self.compute_hidden(input.ids, input.rows, &mut pass)
    }

    /// Computes the logits of a pass.
    fn compute(&self, ids: &Tensor, rows: Option<&Tensor>, pass: &mut Pass<'_>) -> Result<Tensor> {
        let x = self.compute_hidden(ids, rows, pass)?;
        let logits = match &self.output {
            Output::Free(output) => {
                pass.mode.observe(&[&output.weight], &x)?;
                output.forward(&x, pass.mode)?
            }
            Output::Tied(table) => {
                pass.mode.observe(&[&self.embedding.weight], &x)?;
                x.linear(&table.tensor()?, None)?
            }
        };
        match self.config.logit_soft_cap {
            Some(cap) => Ok(logits.div(cap)?.tanh()?.mul(cap)?),
            None => Ok(logits),
        }
    }

    fn compute_hidden(
        &self,
        ids: &Tensor,
        rows: Option<&Tensor>,
        pass: &mut Pass<'_>,
    ) -> Result<Tensor> {
        let mode = pass.mode;
        let width = self.config.width;
        let mut x = self.embedding.forward(ids, mode)?;
        if self.config.scaled_embedding {
            x = x.mul((width as f32).sqrt())?;
        }
        x = match &self.positions {
            PositionTable::Learned(table) => x.add(&table.forward(&pass.positions()?, mode)?)?,
            PositionTable::Sinusoidal(table) => {
                let table = table
                    .tensor()?
                    .reshape(&[self.config.max_positions, width])?;
                x.add(&pass.positions()?.embedding(&table)?)?
            }
            PositionTable::Rotary => x,
        };
        x = self.embedding_dropout.forward(&x, mode)?;
        for block in &self.blocks {
            x = pass.block(block, &x, Block::forward_in)?;
        }
        if let Some(rows) = rows {
            x = rows.embedding(&x.flatten(0, 1)?)?;
        }
        self.final_norm.forward(&x, mode)
    }
}

/// The table of Vaswani et al. 2017: sin(position 10000^(-2i / C)) in the first half of a row, cosines in
/// the second.
fn sinusoids(positions: usize, width: usize) -> Vec<f32> {
    let frequencies = Rotary::plain(10_000.0).frequencies(width, positions);
    hlx_core::cpu::with_flush(|| {
        let mut table = Vec::new();
        for position in 0..positions {
            let angles = frequencies
                .iter()
                .map(|frequency| hlx_core::arith::mul(position as f32, *frequency));
            let angles: Vec<f32> = angles.collect();
            table.extend(angles.iter().map(|&angle| hlx_core::arith::sin(angle)));
            table.extend(angles.iter().map(|&angle| hlx_core::arith::cos(angle)));
            table.resize((position + 1) * width, 0.0);
        }
        table
    })
}

impl Module for CausalLm {
    /// Computes the logits: the ids \[B, T\] to \[B, T, V\].
    fn forward(&self, ids: &Tensor, mode: &Mode) -> Result<Tensor> {
        self.logits(&CausalInput::new(ids), mode)
    }
}

impl CausalModel for CausalLm {
    fn vocabulary(&self) -> usize {
        self.config.vocabulary
    }

    fn max_positions(&self) -> usize {
        self.config.max_positions
    }

    fn logits(&self, input: &CausalInput<'_>, mode: &Mode) -> Result<Tensor> {
        let mut pass = Pass::of_input(input, mode, &self.counted.tensor()?)?;
        self.compute(input.ids, input.rows, &mut pass)
    }

    fn logits_and_balance(
        &self,
        input: &CausalInput<'_>,
        mode: &Mode,
    ) -> Result<(Tensor, Option<Tensor>)> {
        let Some(experts) = &self.config.experts else {
            return Ok((self.logits(input, mode)?, None));
        };
        if mode.is_part_of_shard() {
            let reason = "the balance loss of experts needs passes that hold whole shards";
            return Err(NnError::MicroBatches {
                reason: reason.to_owned(),
            });
        }
        let pass = Pass::of_input(input, mode, &self.counted.tensor()?)?;
        let mut pass = pass.keeping_scores();
        let logits = self.compute(input.ids, input.rows, &mut pass)?;
        let counted = input.lengths.map(|lengths| self.tokens(input, lengths));
        let counted = counted.transpose()?;
        let (scores, shards) = (pass.scores(), mode.shards());
        let balance = balance_loss(scores, counted.as_ref(), experts.per_token, shards)?;
        Ok((logits, balance))
    }

    fn page_pool(&self, device: &Device, n_pages: usize) -> Result<PagePool> {
        let heads = [self.config.n_kv_heads, self.config.head_width];
        PagePool::new(device, self.config.n_layers, n_pages, heads)
    }

    fn logits_of_step(
        &self,
        ids: &Tensor,
        rows: Option<&Tensor>,
        step: CacheStep<'_>,
    ) -> Result<Tensor> {
        let mode = Mode::eval_with(step.norms().clone());
        self.compute(ids, rows, &mut Pass::of_cache(step, &mode))
    }
}
