//! The configuration of a run: its keys, their defaults, and what they may be.
//!
//! A file is read by [`Config::load`], which names the file, the line and the key of whatever is
//! wrong in it. `docs/configuration.md` lists the keys for users.

mod check;
mod identity;
mod read;

use serde::{Deserialize, Serialize};

pub use read::Override;

/// A run's whole configuration, as a TOML file holds it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Config {
    /// Keys every random number of the run.
    #[serde(default)]
    pub seed: u64,
    /// The model's sizes.
    pub model: ModelSection,
    /// The corpus.
    pub data: DataSection,
    /// How to train.
    pub train: TrainSection,
}

/// `[model]`: a preset, or sizes, or a preset with some sizes replaced.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ModelSection {
    /// `tiny`, `small` or `medium`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub preset: Option<Preset>,
    /// Width of the residual stream.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub width: Option<usize>,
    /// Number of blocks.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub n_layers: Option<usize>,
    /// Number of attention heads; divides the width.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub n_heads: Option<usize>,
    /// Width of the feed-forward layer; four times the width if left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub feed_forward_width: Option<usize>,
    /// The longest sequence; 128 if left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub positions: Option<usize>,
    /// Probability that an activation is dropped in training.
    #[serde(default)]
    pub dropout: f64,
}

/// The named sizes of `[model]`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Preset {
    /// Width 256, 4 layers, 4 heads, 128 positions.
    Tiny,
    /// Width 512, 6 layers, 8 heads, 256 positions.
    Small,
    /// Width 768, 12 layers, 12 heads, 512 positions.
    Medium,
}

/// `[data]`: where the corpus lies and how it is read.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DataSection {
    /// The file, relative to the configuration file.
    pub path: String,
    /// `pairs` (JSONL) or `text`.
    pub format: Format,
    /// The part of the samples held out for evaluation, from 0 (none) to below 1.
    #[serde(default)]
    pub eval_fraction: f64,
}

/// How a corpus is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Format {
    /// A line holds `{"input": ..., "output": ...}`; the loss is on the output alone.
    Pairs,
    /// Plain text, cut into contiguous windows.
    Text,
}

/// `[train]`: length, batches, optimizer, and how often to log, evaluate and save.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TrainSection {
    /// Passes over the corpus; this or `max_steps` is needed, and the sooner one ends the run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub epochs: Option<u64>,
    /// Optimizer steps.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_steps: Option<u64>,
    /// Samples of one optimizer step.
    #[serde(default = "default_batch_size")]
    pub batch_size: usize,
    /// Samples computed at a time: memory falls with it, and no bit changes. `batch_size` if
    /// left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub micro_batch_size: Option<usize>,
    /// Shards of the gradient's summation tree, a power of two; the largest up to 8 that
    /// divides the batch if left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shards: Option<usize>,
    /// The peak rate.
    #[serde(default = "default_learning_rate")]
    pub learning_rate: f64,
    /// How the rate changes after the warm-up.
    #[serde(default)]
    pub schedule: ScheduleKind,
    /// Steps over which the rate rises linearly to its peak.
    #[serde(default)]
    pub warmup_steps: u64,
    /// The optimizer.
    #[serde(default)]
    pub optimizer: OptimizerKind,
    /// Weight decay, as the optimizer defines it; PyTorch's default for the optimizer if left
    /// out: 0.01 for AdamW, else 0.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub weight_decay: Option<f64>,
    /// Largest norm of the gradient; 0 turns clipping off.
    #[serde(default = "default_clip_norm")]
    pub clip_norm: f64,
    /// Probability spread over all bytes in the training loss.
    #[serde(default)]
    pub label_smoothing: f64,
    /// Ends the run when the mean loss over the training corpus is at most this.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub target_loss: Option<f64>,
    /// Steps between log lines.
    #[serde(default = "default_log_every")]
    pub log_every: u64,
    /// Steps between evaluations of the held-out samples; 0 evaluates at the end alone.
    #[serde(default)]
    pub eval_every: u64,
    /// Steps between checkpoints; 0 saves at the end alone.
    #[serde(default = "default_checkpoint_every")]
    pub checkpoint_every: u64,
    /// Newest checkpoints kept, besides the best.
    #[serde(default = "default_keep")]
    pub keep: usize,
}

/// How the learning rate changes after the warm-up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ScheduleKind {
    /// Stays at the peak.
    Constant,
    /// Falls in a straight line; it would reach zero at the step after the last.
    Linear,
    /// Falls along half a cosine; it would reach zero at the step after the last.
    #[default]
    Cosine,
}

/// The optimizers; their formulas and constants are those of `torch.optim`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OptimizerKind {
    /// Gradient descent with momentum 0.9.
    Sgd,
    /// Adam with betas 0.9 and 0.999.
    Adam,
    /// AdamW with betas 0.9 and 0.999.
    #[default]
    Adamw,
}

fn default_batch_size() -> usize {
    16
}

fn default_learning_rate() -> f64 {
    1e-3
}

fn default_clip_norm() -> f64 {
    1.0
}

fn default_log_every() -> u64 {
    10
}

fn default_checkpoint_every() -> u64 {
    200
}

fn default_keep() -> usize {
    3
}

impl Config {
    /// Fills in what a key's absence means, so that the written configuration says everything.
    fn resolve(&mut self) {
        let preset = self.model.preset.map(Preset::sizes);
        let model = &mut self.model;
        let from_preset = |at: usize| preset.map(|sizes| sizes[at]);
        model.width = model.width.or(from_preset(0));
        model.n_layers = model.n_layers.or(from_preset(1));
        model.n_heads = model.n_heads.or(from_preset(2));
        model.positions = model.positions.or(from_preset(3)).or(Some(128));
        model.feed_forward_width = model
            .feed_forward_width
            .or(model.width.map(|width| width * 4));
        let train = &mut self.train;
        train.micro_batch_size = train.micro_batch_size.or(Some(train.batch_size));
        train.shards = train.shards.or(Some(default_shards(train.batch_size)));
        train.weight_decay = Some(train.weight_decay());
    }

    /// The configuration as the text that a run folder holds.
    ///
    /// # Errors
    /// The serialiser's message; it is not expected to fail.
    pub fn to_toml(&self) -> anyhow::Result<String> {
        Ok(toml::to_string(self)?)
    }

    /// The model that the sizes describe; none is missing after [`Config::load`].
    pub fn transformer(&self) -> hlx_nn::TransformerConfig {
        let model = &self.model;
        hlx_nn::TransformerConfig {
            vocabulary: crate::data::VOCABULARY,
            width: model.width.unwrap_or(0),
            n_layers: model.n_layers.unwrap_or(0),
            n_heads: model.n_heads.unwrap_or(0),
            feed_forward_width: model.feed_forward_width.unwrap_or(0),
            positions: self.positions(),
            dropout: model.dropout as f32,
        }
    }

    /// Samples computed at a time.
    pub fn micro_batch_size(&self) -> usize {
        self.train.micro_batch_size.unwrap_or(self.train.batch_size)
    }

    /// Shards of the gradient's tree.
    pub fn shards(&self) -> usize {
        self.train
            .shards
            .unwrap_or_else(|| default_shards(self.train.batch_size))
    }

    /// The longest sequence.
    pub fn positions(&self) -> usize {
        self.model.positions.unwrap_or(128)
    }
}

impl TrainSection {
    /// The weight decay that the optimizer is made with.
    pub fn weight_decay(&self) -> f64 {
        let default = match self.optimizer {
            OptimizerKind::Adamw => 0.01,
            OptimizerKind::Adam | OptimizerKind::Sgd => 0.0,
        };
        self.weight_decay.unwrap_or(default)
    }

    /// The least mean training loss that label smoothing leaves, in nats: the entropy of the
    /// smoothed target over all tokens.
    pub fn loss_floor(&self) -> f64 {
        let n_tokens = crate::data::VOCABULARY as f64;
        let wrong = self.label_smoothing / n_tokens;
        let right = 1.0 - self.label_smoothing + wrong;
        let term = |p: f64| match p > 0.0 {
            // HLX's own logarithm: messages are the same on every platform too.
            true => -p * f64::from(hlx_core::arith::log(p as f32)),
            false => 0.0,
        };
        term(right) + (n_tokens - 1.0) * term(wrong)
    }

    /// Settings that are allowed but probably not intended, a line each.
    pub fn warnings(&self) -> Vec<String> {
        let (floor, target) = (self.loss_floor(), self.target_loss);
        let below = target.filter(|target| *target < floor);
        let warning = |target: f64| {
            format!(
                "train.target_loss: {target} is below {floor:.4}, the least training loss that \
                 train.label_smoothing {} leaves; the target is looked at only in epochs whose \
                 training loss is at most 4 times as large",
                self.label_smoothing
            )
        };
        below.map(warning).into_iter().collect()
    }
}

impl Preset {
    /// Width, layers, heads, positions.
    fn sizes(self) -> [usize; 4] {
        match self {
            Self::Tiny => [256, 4, 4, 128],
            Self::Small => [512, 6, 8, 256],
            Self::Medium => [768, 12, 12, 512],
        }
    }
}

/// The largest power of two up to 8 that divides the batch.
fn default_shards(batch_size: usize) -> usize {
    [8, 4, 2]
        .into_iter()
        .find(|&shards| batch_size.is_multiple_of(shards))
        .unwrap_or(1)
}
