//! A whole training step, as the training loop runs it: the batch goes up, one recording with
//! forward, backward, clip and AdamW is replayed.

use std::any::Any;
use std::rc::Rc;

use anyhow::{Context as _, Result};
use hlx_autograd::{Recompute, Tensor};
use hlx_core::arith::uniform;
use hlx_core::{Buffer, Device, Graph};
use hlx_nn::{
    AdamW, AdamWConfig, CausalLm, Common, MicroBatchPlan, Mode, Model, Module, NnError, Optimizer,
    PreparedWeights, TransformerConfig,
};

use crate::maker::{scramble, value};
use crate::mlp::{Mlp, MlpConfig};
use crate::resnet::{CLASSES, IMAGE, ResNet, ResNetConfig};

/// A configuration whose step is measured: a model, and how many samples a step has.
pub enum Configuration {
    /// Sequences with as many positions as the model.
    Language(TransformerConfig, usize),
    /// Images of 32 by 32.
    Images(ResNetConfig, usize),
    /// Rows of numbers that a perceptron reads.
    Rows(MlpConfig, usize),
}

/// The configurations: three presets of a transformer, the shape of GPT-2, a residual network at two
/// batch sizes, a perceptron, and two that run anywhere.
pub const NAMES: [&str; 9] = [
    "mlp",
    "mini",
    "tiny",
    "small",
    "medium",
    "gpt2",
    "resnet-mini",
    "resnet-32",
    "resnet-128",
];

/// The most shards that a run cuts its batch into by itself.
const MAX_SHARDS: usize = 8;

/// The shards of a batch: the default of a run.
fn shards_of(batch: usize) -> usize {
    MAX_SHARDS.min(1 << batch.trailing_zeros())
}

/// Finds a configuration by its name.
pub fn configuration(name: &str) -> Option<Configuration> {
    let language = |model, batch| Configuration::Language(model, batch);
    let images =
        |width, blocks, batch| Configuration::Images(ResNetConfig { width, blocks }, batch);
    Some(match name {
        "mini" => language(mini(), 8),
        "tiny" => language(TransformerConfig::tiny(), 8),
        "small" => language(TransformerConfig::small(), 32),
        "medium" => language(TransformerConfig::medium(), 32),
        "gpt2" => {
            let model = TransformerConfig {
                vocabulary: 50_304,
                positions: 1024,
                ..TransformerConfig::medium()
            };
            language(model, 8)
        }
        "mlp" => Configuration::Rows(MlpConfig::DEFAULT, 256),
        "resnet-mini" => images(8, 1, 8),
        "resnet-32" => images(64, 2, 32),
        "resnet-128" => images(64, 2, 128),
        _ => return None,
    })
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
        attention_dropout: 0.0,
    }
}

impl Configuration {
    /// The sizes of a transformer; `None` of other models.
    pub fn transformer(self) -> Option<TransformerConfig> {
        match self {
            Self::Language(model, _) => Some(model),
            Self::Images(..) | Self::Rows(..) => None,
        }
    }

    /// What a step reads, and its unit: tokens, images or rows.
    pub fn samples(&self) -> (f64, &'static str) {
        match self {
            Self::Language(model, batch) => ((batch * model.positions) as f64, "tokens"),
            Self::Images(_, batch) => (*batch as f64, "images"),
            Self::Rows(_, batch) => (*batch as f64, "rows"),
        }
    }

    /// Operations of a step's products and attention: each product once forward and twice
    /// backward, attention with two products forward and five backward below the diagonal.
    pub fn flops(&self) -> f64 {
        let (model, batch) = match self {
            Self::Language(model, batch) => (model, *batch),
            Self::Images(model, batch) => return model.flops(*batch),
            Self::Rows(model, batch) => return model.flops(*batch),
        };
        let (c, f) = (model.width, model.feed_forward_width);
        let layers = model.n_layers * (4 * c * c + 2 * c * f);
        let weights = (layers + model.vocabulary * c) as f64;
        let tokens = (batch * model.positions) as f64;
        let pairs = tokens * (model.positions as f64 + 1.0) / 2.0;
        let attention = 2.0 * 7.0 * pairs * (c * model.n_layers) as f64;
        6.0 * weights * tokens + attention
    }
}

/// A model in training, with the recording of its step.
pub struct Training {
    device: Device,
    optimizer: AdamW,
    /// What goes up before each step: tensors and their words.
    uploads: [(Tensor, Vec<u32>); 2],
    graph: Graph,
    loss: Buffer,
    /// The digest of the parameters as they are.
    digest: Box<dyn Fn() -> Result<String>>,
    // What the recording reads must live as long.
    _held: (Box<dyn Any>, Mode, Tensor),
}

impl Training {
    /// Makes a model and records its step.
    ///
    /// # Errors
    /// What the device reports.
    pub fn new(device: &Device, configuration: &Configuration) -> Result<Self> {
        match configuration {
            Configuration::Language(sizes, batch) => {
                let model = Model::new(device, 1, |b| CausalLm::new(b, &(*sizes).into()))?;
                let uploads = tokens(device, sizes.vocabulary, [*batch, sizes.positions])?;
                Self::record(device, model, uploads, None)
            }
            Configuration::Images(sizes, batch) => {
                let model = Model::new(device, 1, |b| Ok(ResNet::new(b, sizes)))?;
                Self::record(device, model, images(device, *batch)?, None)
            }
            Configuration::Rows(sizes, batch) => {
                let model = Model::new(device, 1, |b| Ok(Mlp::new(b, sizes)))?;
                Self::record(device, model, rows(device, sizes, *batch)?, None)
            }
        }
    }

    /// Records the step of a model that reads the first upload and whose targets are the second; what
    /// `recompute` says of each block is computed again on the way back.
    pub(crate) fn record<M: Module + 'static>(
        device: &Device,
        model: Model<M>,
        uploads: [(Tensor, Vec<u32>); 2],
        recompute: Option<Recompute>,
    ) -> Result<Self> {
        let config = AdamWConfig {
            common: Common {
                clip_norm: Some(1.0),
                ..AdamWConfig::default().common
            },
            ..AdamWConfig::default()
        };
        let mut optimizer = AdamW::new(model.weights(), config)?;
        optimizer.prepare(3e-4)?;
        let [(inputs, _), (targets, _)] = &uploads;
        let batch = inputs.shape()[0];
        let scale = Tensor::from_slice(device, &[1.0 / targets.n_elements() as f32], &[1])?;
        let plan = MicroBatchPlan::new(batch, batch, shards_of(batch))?;
        let pass = plan.passes.first().context("a batch has a pass")?;
        let mode = Mode::train(device, 1)?
            .with_shards(pass.plan.shards, false)
            .with_recomputation(recompute);
        let prepared = PreparedWeights::new(model.weights())?;
        let (graph, loss) = device.record(|| -> Result<Buffer, NnError> {
            prepared.update()?;
            prepared.use_in_recording();
            let logits = model.forward(inputs, &mode)?;
            let loss = logits.cross_entropy_scaled(targets, &scale, 0.0)?;
            loss.backward_with(&pass.plan)?;
            optimizer.update(model.weights())?;
            Ok(loss.buffer()?)
        })?;
        let model = Rc::new(model);
        let trained = Rc::clone(&model);
        Ok(Self {
            device: device.clone(),
            optimizer,
            uploads,
            graph,
            loss,
            digest: Box::new(move || Ok(trained.weights().digest()?)),
            _held: (Box::new((model, prepared)), mode, scale),
        })
    }

    /// The digest of all parameters, which waits for the last step.
    ///
    /// # Errors
    /// What the device reports.
    pub fn digest(&self) -> Result<String> {
        (self.digest)()
    }

    /// Launches a step; nothing is waited for.
    ///
    /// # Errors
    /// What the device reports.
    pub fn step(&mut self) -> Result<()> {
        self.optimizer.prepare(3e-4)?;
        for (tensor, words) in &self.uploads {
            self.device.upload_words(&tensor.buffer()?, words)?;
        }
        Ok(self.graph.replay()?)
    }

    /// The launches of a step.
    pub fn launches(&self) -> usize {
        self.graph.len()
    }

    /// The loss of the last step, which waits for it.
    ///
    /// # Errors
    /// What the device reports.
    pub fn loss(&self) -> Result<f32> {
        let values = self.device.download::<f32>(&self.loss)?;
        values.first().copied().context("a loss")
    }
}

/// The ids of sequences \[B, T\], and the ids that follow each.
pub(crate) fn tokens(
    device: &Device,
    vocabulary: usize,
    shape: [usize; 2],
) -> Result<[(Tensor, Vec<u32>); 2]> {
    let n: usize = shape.iter().product();
    let vocabulary = vocabulary as u32;
    let tokens = 0..n as u32 + 1;
    let tokens: Vec<u32> = tokens.map(|place| scramble(place) % vocabulary).collect();
    let (ids, targets) = (tokens[..n].to_vec(), tokens[1..].to_vec());
    let inputs = Tensor::from_slice::<u32>(device, &ids, &shape)?.with_samples(0)?;
    Ok([
        (inputs, ids),
        (
            Tensor::from_slice::<u32>(device, &targets, &shape)?,
            targets,
        ),
    ])
}

/// Rows of values in [-1, 1) and their classes.
fn rows(device: &Device, sizes: &MlpConfig, batch: usize) -> Result<[(Tensor, Vec<u32>); 2]> {
    let [inputs, .., classes] = sizes.widths;
    let values: Vec<f32> = (0..batch * inputs).map(value).collect();
    let labels: Vec<u32> = (0..batch as u32)
        .map(|place| scramble(place) % classes as u32)
        .collect();
    let rows = Tensor::from_slice(device, &values, &[batch, inputs])?.with_samples(0)?;
    let targets = Tensor::from_slice::<u32>(device, &labels, &[batch])?;
    let words = values.into_iter().map(f32::to_bits).collect();
    Ok([(rows, words), (targets, labels)])
}

/// Images of values in [0, 1) and their classes.
fn images(device: &Device, batch: usize) -> Result<[(Tensor, Vec<u32>); 2]> {
    let shape = [&[batch], &IMAGE[..]].concat();
    let places = 0..shape.iter().product::<usize>() as u32;
    let values: Vec<f32> = places.map(|place| uniform(scramble(place))).collect();
    let labels: Vec<u32> = (0..batch as u32)
        .map(|place| scramble(place) % CLASSES as u32)
        .collect();
    let inputs = Tensor::from_slice(device, &values, &shape)?.with_samples(0)?;
    let targets = Tensor::from_slice::<u32>(device, &labels, &[batch])?;
    let words = values.into_iter().map(f32::to_bits).collect();
    Ok([(inputs, words), (targets, labels)])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_loss_falls_from_that_of_even_chances() -> Result<()> {
        let device = hlx_core::testing::cpu()?;
        let mini = configuration("mini").context("mini")?;
        let mut training = Training::new(&device, &mini)?;
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
    fn a_digest_is_that_of_the_steps_taken() -> Result<()> {
        let device = hlx_core::testing::cpu()?;
        let mlp = configuration("mlp").context("mlp")?;
        let after = |steps: usize| -> Result<String> {
            let mut training = Training::new(&device, &mlp)?;
            (0..steps).try_for_each(|_| training.step())?;
            training.digest()
        };
        assert_eq!(after(2)?, after(2)?);
        assert_ne!(after(2)?, after(1)?);
        Ok(())
    }

    #[test]
    fn the_loss_of_images_falls() -> Result<()> {
        let device = hlx_core::testing::cpu()?;
        let mini = configuration("resnet-mini").context("resnet-mini")?;
        let mut training = Training::new(&device, &mini)?;
        training.step()?;
        let first = training.loss()?;
        assert!((first - 10_f32.ln()).abs() < 0.7, "{first}");
        for _ in 0..30 {
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
        // Multiply-adds an image forward, in thousands, layer by layer: the stem; 4 of 64 to 64 at 32
        // by 32; then twice one of half the channels in, 3 of all, and a shortcut, at a quarter of the
        // pixels each time.
        let (stem, full) = (1_769.472, 37_748.736);
        let others = 4.0 * full + 2.0 * (0.5 * full + 3.0 * full + full / 18.0);
        let expected = (6.0 * others + 4.0 * stem) * 128e3;
        let found = configuration("resnet-128").context("resnet-128")?.flops();
        assert!(
            (found / expected - 1.0).abs() < 1e-6,
            "{found} for {expected}"
        );
        assert!(configuration("large").is_none());
        assert!(NAMES.iter().all(|name| configuration(name).is_some()));
        Ok(())
    }
}
