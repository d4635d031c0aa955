//! A whole training step, as the training loop runs it: the batch goes up, one recording with
//! forward, backward, clip and AdamW is replayed.

use anyhow::{Context as _, Result};
use hlx_autograd::Tensor;
use hlx_core::{Buffer, Context, Graph};
use hlx_nn::{
    AdamW, AdamWConfig, ForwardContext, MicroBatchPlan, NnError, Optimizer, Transformer,
    TransformerConfig, cross_entropy,
};

/// A configuration whose step is measured.
pub struct Configuration {
    /// The model.
    pub model: TransformerConfig,
    /// Sequences a step; each has as many positions as the model.
    pub batch: usize,
}

/// The configurations: three presets, the shape of GPT-2, and one that runs anywhere.
pub const NAMES: [&str; 5] = ["mini", "tiny", "small", "medium", "gpt2"];

/// The shards of every batch: the default of a run.
const SHARDS: usize = 8;

/// Finds a configuration by its name.
pub fn configuration(name: &str) -> Option<Configuration> {
    let (model, batch) = match name {
        "mini" => (mini(), 8),
        "tiny" => (TransformerConfig::tiny(), 8),
        "small" => (TransformerConfig::small(), 32),
        "medium" => (TransformerConfig::medium(), 32),
        "gpt2" => {
            let model = TransformerConfig {
                vocabulary: 50_304,
                positions: 1024,
                ..TransformerConfig::medium()
            };
            (model, 8)
        }
        _ => return None,
    };
    Some(Configuration { model, batch })
}

fn mini() -> TransformerConfig {
    TransformerConfig {
        vocabulary: 64,
        width: 32,
        n_layers: 1,
        n_heads: 2,
        feed_forward_width: 64,
        positions: 16,
        dropout: 0.0,
    }
}

impl Configuration {
    /// Tokens of a step.
    pub fn tokens(&self) -> usize {
        self.batch * self.model.positions
    }

    /// Operations of a step's products and attention: each product once forward and twice
    /// backward, attention with two products forward and five backward below the diagonal.
    pub fn flops(&self) -> f64 {
        let (c, f) = (self.model.width, self.model.feed_forward_width);
        let layers = self.model.n_layers * (4 * c * c + 2 * c * f);
        let weights = (layers + self.model.vocabulary * c) as f64;
        let pairs = self.tokens() as f64 * (self.model.positions as f64 + 1.0) / 2.0;
        let attention = 2.0 * 7.0 * pairs * (c * self.model.n_layers) as f64;
        6.0 * weights * self.tokens() as f64 + attention
    }
}

/// A model in training, with the recording of its step.
pub struct Training {
    ctx: Context,
    _model: Transformer,
    optimizer: AdamW,
    ids: Tensor,
    targets: Tensor,
    tokens: Vec<u32>,
    graph: Graph,
    loss: Buffer,
    // What the recording reads must live as long.
    _inputs: (ForwardContext, Tensor),
}

impl Training {
    /// Makes a model and records its step.
    ///
    /// # Errors
    /// What the device reports.
    pub fn new(ctx: &Context, configuration: &Configuration) -> Result<Self> {
        let Configuration { model, batch, .. } = configuration;
        let (batch, time) = (*batch, model.positions);
        let vocabulary = model.vocabulary as u32;
        let model = Transformer::new(ctx, model, 1)?;
        let config = AdamWConfig {
            clip_norm: Some(1.0),
            ..AdamWConfig::default()
        };
        let mut optimizer = AdamW::new(model.store(), config)?;
        optimizer.prepare(3e-4)?;
        let tokens: Vec<u32> = (0..(batch * time) as u32 + 1)
            .map(|place| crate::work::scramble(place) % vocabulary)
            .collect();
        let ids = Tensor::ids(ctx, &tokens[..batch * time], &[batch, time])?.with_samples(0)?;
        let targets = Tensor::ids(ctx, &tokens[1..], &[batch, time])?;
        let scale = Tensor::from_slice(ctx, &[1.0 / (batch * time) as f32], &[1])?;
        let context = ForwardContext::new(ctx, batch, time)?;
        let plan = MicroBatchPlan::new(batch, batch, SHARDS)?;
        let pass = plan.passes.first().context("a batch has a pass")?;
        let (graph, loss) = ctx.record(|| -> Result<Buffer, NnError> {
            let logits = model.forward(&ids, &context)?;
            let loss = cross_entropy(&logits, &targets, &scale, 0.0)?;
            loss.backward_with(&pass.plan)?;
            optimizer.update(model.store())?;
            Ok(loss.buffer()?)
        })?;
        Ok(Self {
            ctx: ctx.clone(),
            _model: model,
            optimizer,
            ids,
            targets,
            tokens,
            graph,
            loss,
            _inputs: (context, scale),
        })
    }

    /// Launches a step; nothing is waited for.
    ///
    /// # Errors
    /// What the device reports.
    pub fn step(&mut self) -> Result<()> {
        let n = self.tokens.len() - 1;
        self.optimizer.prepare(3e-4)?;
        self.ctx
            .upload_u32(&self.ids.buffer()?, &self.tokens[..n])?;
        self.ctx
            .upload_u32(&self.targets.buffer()?, &self.tokens[1..])?;
        Ok(self.graph.replay()?)
    }

    /// The loss of the last step, which waits for it.
    ///
    /// # Errors
    /// What the device reports.
    pub fn loss(&self) -> Result<f32> {
        let values = self.ctx.download_f32(&self.loss)?;
        values.first().copied().context("a loss")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_loss_falls_from_that_of_even_chances() -> Result<()> {
        let ctx = hlx_core::testing::cpu()?;
        let mini = configuration("mini").context("mini")?;
        let mut training = Training::new(&ctx, &mini)?;
        training.step()?;
        let first = training.loss()?;
        assert!((first - 64_f32.ln()).abs() < 0.1, "{first}");
        for _ in 0..60 {
            training.step()?;
        }
        assert!(training.loss()? < first - 0.05);
        Ok(())
    }

    #[test]
    fn operations_are_those_of_the_formula() -> Result<()> {
        let medium = configuration("medium").context("medium")?;
        // 6 operations a weight of a product and token, and about 10% for attention.
        let plain = 6.0 * 85.1e6 * 16_384.0;
        let share = medium.flops() / plain;
        assert!((1.05..1.15).contains(&share), "{share}");
        assert!(configuration("large").is_none());
        assert!(NAMES.iter().all(|name| configuration(name).is_some()));
        Ok(())
    }
}
