//! The configuration of a run: its keys, their defaults, and what they may be.
//!
//! A file is read by [`Config::load`], which names the file, the line and the key of whatever is
//! wrong in it. `docs/configuration.md` lists the keys for users.

mod base;
mod bounds;
mod causal;
mod check;
mod course;
mod data;
mod fault;
mod identity;
mod json;
mod lora;
mod loss_scale;
mod model;
mod optimizer;
mod overrides;
mod read;
mod sample;
mod schedule;
mod seed;
mod toml_value;

use hlx_core::{Arithmetic, Half, SavedFormat};
use serde::{Deserialize, Serialize};

use fault::{Checked, fault};

pub use base::Base;
pub use causal::preset;
pub use data::{DataSection, Format, RowKind, WindowKind};
pub(crate) use lora::lora_to_bytes;
pub use lora::{LoraSection, lora_from_bytes};
pub use loss_scale::LossScaleKind;
pub use model::{ModelKind, ModelSection, Preset};
pub use optimizer::{AdjustKind, GroupSection, Offload, OptimizerKind, OptimizerSection};
pub use overrides::Override;
pub use sample::SampleSection;
pub use schedule::{Anneal, DecayKind, ScheduleKind, ScheduleSection};
pub use seed::parse_seed;

/// A run's whole configuration, as a TOML file holds it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Config {
    /// Keys every random number of the run.
    #[serde(default, with = "seed")]
    pub seed: u64,
    /// What products are computed in: portable, integer, fast (bf16) or fast_f16.
    #[serde(default, skip_serializing_if = "is_portable")]
    pub arithmetic: Arithmetic,
    /// The model.
    pub model: ModelSection,
    /// The corpus.
    pub data: DataSection,
    /// How to train.
    pub train: TrainSection,
    /// Numbers of the optimizer.
    #[serde(default, skip_serializing_if = "OptimizerSection::is_empty")]
    pub optimizer: OptimizerSection,
    /// Numbers of the schedule.
    #[serde(default, skip_serializing_if = "ScheduleSection::is_empty")]
    pub schedule: ScheduleSection,
    /// Parameters with a rate and a decay of their own.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub groups: Vec<GroupSection>,
    /// Low-rank adapters of a language model that is otherwise frozen.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lora: Option<LoraSection>,
    /// What is written at every evaluation, to be read.
    #[serde(default, skip_serializing_if = "SampleSection::is_empty")]
    pub sample: SampleSection,
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
    /// Tokens of one optimizer step, in place of `batch_size`, which becomes this over the positions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub batch_tokens: Option<u64>,
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
    /// What lies in the host's memory instead of the device's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub offload: Option<Offload>,
    /// Weight decay, as the optimizer defines it; PyTorch's default for the optimizer if left
    /// out: 0.01 for AdamW, 0.1 for Muon's matrices, else 0.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub weight_decay: Option<f64>,
    /// Largest norm of the gradient; 0 disables clipping.
    #[serde(default = "default_clip_norm")]
    pub clip_norm: f64,
    /// Largest magnitude of a gradient's element, after the norm's clip.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub clip_value: Option<f64>,
    /// Probability spread over all bytes, or classes, in the training loss.
    #[serde(default)]
    pub label_smoothing: f64,
    /// For a mixture of experts: what the balance loss of the routers is multiplied by before it is added to
    /// the loss (`router_aux_loss_coef` in `transformers`); it is not added if left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub router_balance: Option<f64>,
    /// Where the weights begin: a run, one of its checkpoints, a model folder of HLX or of Hugging Face,
    /// or a safetensors file. They are drawn from the seed if left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub init_from: Option<String>,
    /// Patterns for the names of parameters that stay what they are.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub freeze: Vec<String>,
    /// Whether a step whose loss or gradient norm is NaN or infinite leaves the model as it is.
    #[serde(default, skip_serializing_if = "is_false")]
    pub skip_non_finite: bool,
    /// What the loss is multiplied by before the backward pass; nothing if left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub loss_scale: Option<LossScaleKind>,
    /// Steps in a row that may be skipped before the run ends; 10 if left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_skips: Option<u64>,
    /// Whether a run continues whose loss or parameters are NaN or infinite.
    #[serde(default, skip_serializing_if = "is_false")]
    pub allow_non_finite: bool,
    /// Whether a run of `fast` goes on where its bits are others: on another model of device or with another driver.
    #[serde(default, skip_serializing_if = "is_false")]
    pub allow_other_device: bool,
    /// The decay of a moving average of the parameters; none is computed if left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ema_decay: Option<f64>,
    /// Whether evaluations and samples read the moving average; they do if left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub evaluate_average: Option<bool>,
    /// Whether the backward pass computes the inside of each block but attention once more: less memory, the
    /// same bits.
    #[serde(default, skip_serializing_if = "is_false")]
    pub recompute: bool,
    /// Whether it then computes attention once more, too.
    #[serde(default, skip_serializing_if = "is_false")]
    pub recompute_attention: bool,
    /// In what activations are saved for the backward pass: f32 or bf16. If left out, bf16 in `fast` and else f32.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub saved: Option<SavedFormat>,
    /// Ends the run after this many evaluations in a row without an improvement of the held-out loss.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub patience: Option<u64>,
    /// By how much the held-out loss must fall to be an improvement; 0 if left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub min_delta: Option<f64>,
    /// Whether an evaluation with the lowest held-out loss so far saves a checkpoint.
    #[serde(default, skip_serializing_if = "is_false")]
    pub save_best: bool,
    /// Whether TensorBoard's event file is written; it is if left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tensorboard: Option<bool>,
    /// Whether ranks look for silent errors of each other (memory, processors); true if left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub check_ranks: Option<bool>,
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
    /// Newest checkpoints that stay, besides the best.
    #[serde(default = "default_keep")]
    pub keep: usize,
}

// serde hands over a reference.
#[allow(clippy::trivially_copy_pass_by_ref)]
fn is_portable(arithmetic: &Arithmetic) -> bool {
    *arithmetic == Arithmetic::Portable
}

fn is_false(value: &bool) -> bool {
    !value
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
    /// Fills in what a key's absence means, so that the written configuration says everything;
    /// `has_batch_size` says whether `train.batch_size` was given.
    fn resolve(&mut self, has_batch_size: bool) -> Checked {
        self.model.resolve()?;
        self.data.resolve();
        self.resolve_lora();
        self.resolve_muon();
        self.resolve_batch_tokens(has_batch_size)?;
        self.resolve_fast();
        let train = &mut self.train;
        train.micro_batch_size = train.micro_batch_size.or(Some(train.batch_size));
        train.shards = train.shards.or(Some(default_shards(train.batch_size)));
        train.weight_decay = Some(train.weight_decay());
        Ok(())
    }

    /// What `fast` has by default: activations in 16 bits, and with f16 a loss that is scaled.
    fn resolve_fast(&mut self) {
        let train = &mut self.train;
        match self.arithmetic.half() {
            None if train.saved == Some(SavedFormat::F32) => train.saved = None,
            None => {}
            Some(half) => {
                train.saved = train.saved.or(Some(SavedFormat::Bf16));
                if half == Half::F16 {
                    train.loss_scale = train.loss_scale.or(Some(LossScaleKind::Dynamic));
                }
            }
        }
    }

    /// Replaces `train.batch_tokens` by the samples that it stands for.
    fn resolve_batch_tokens(&mut self, has_batch_size: bool) -> Checked {
        let Some(tokens) = self.train.batch_tokens.take() else {
            return Ok(());
        };
        let key = "train.batch_tokens";
        if self.model.classifier_kind().is_some() {
            return fault(key, "is no key of a classifier, expected batch_size");
        }
        if has_batch_size {
            return fault(key, "stands beside batch_size, expected one of them");
        }
        let length = self.row_length() as u64;
        if tokens == 0 || length == 0 || !tokens.is_multiple_of(length) {
            let reason = format!("{tokens} is no multiple of the {length} positions");
            return fault(key, reason);
        }
        self.train.batch_size = (tokens / length) as usize;
        Ok(())
    }

    /// The configuration as the text that a run folder holds.
    ///
    /// # Errors
    /// The serialiser's message; it is not expected to fail.
    pub fn to_toml(&self) -> anyhow::Result<String> {
        Ok(toml::to_string(self)?)
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
}

impl TrainSection {
    /// The weight decay that the optimizer is made with.
    pub fn weight_decay(&self) -> f64 {
        self.weight_decay
            .unwrap_or_else(|| self.optimizer.weight_decay())
    }

    /// The least mean training loss that label smoothing leaves, in nats: the entropy of the
    /// smoothed target over all classes, such as the bytes.
    pub fn loss_floor(&self, n_classes: usize) -> f64 {
        let n_classes = n_classes as f64;
        let wrong = self.label_smoothing / n_classes;
        let right = 1.0 - self.label_smoothing + wrong;
        let term = |p: f64| match p > 0.0 {
            // HLX's own logarithm: messages are the same on every platform too.
            true => -p * f64::from(hlx_core::arith::log(p as f32)),
            false => 0.0,
        };
        term(right) + (n_classes - 1.0) * term(wrong)
    }

    /// Settings that are allowed but probably not intended, one line each, for a model of this many
    /// classes.
    pub fn warnings(&self, n_classes: usize) -> Vec<String> {
        let (floor, target) = (self.loss_floor(n_classes), self.target_loss);
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

/// The largest power of two up to 8 that divides the batch.
fn default_shards(batch_size: usize) -> usize {
    [8, 4, 2]
        .into_iter()
        .find(|&shards| batch_size.is_multiple_of(shards))
        .unwrap_or(1)
}
