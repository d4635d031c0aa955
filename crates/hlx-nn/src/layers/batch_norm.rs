//! Batch normalisation.

use std::ops::Deref;

use hlx_autograd::{BatchNormOptions, RunningStatistics, Tensor};

use super::{declare_gain_and_bias, gain_and_bias};
use crate::error::NnError;
use crate::{Mode, ModelBuffer, Module, Parameter, ParameterBuilder, Result};

/// How a batch norm is made, with PyTorch's names and defaults.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct BatchNormConfig {
    /// Added to the variance under the root; 1e-5.
    pub eps: f32,
    /// The weight of a new running value, 0.1; `None` averages over all shards so far.
    pub momentum: Option<f32>,
    /// Whether there are gain and bias.
    pub affine: bool,
    /// Whether there are running values; without them evaluation takes the batch's statistics.
    pub track_running_stats: bool,
}

impl Default for BatchNormConfig {
    fn default() -> Self {
        Self {
            eps: 1e-5,
            momentum: Some(0.1),
            affine: true,
            track_running_stats: true,
        }
    }
}

/// What [`BatchNorm1d`] and [`BatchNorm2d`] have: normalises each channel to mean 0 and variance 1, in
/// training by the statistics of the shard that a sample belongs to and in evaluation by running values,
/// then applies gain and bias.
///
/// A shard is the batch of PyTorch: the bits do not depend on how a batch is split into micro-batches of
/// whole shards, and a pass over a part of one is refused. The running values follow shard by shard, so
/// that `num_batches_tracked` counts shards. The empty samples of a short batch enter no statistic.
#[derive(Clone, Debug)]
pub struct BatchNorm {
    /// The gain, \[C\], ones.
    pub weight: Option<Parameter>,
    /// \[C\], zeros.
    pub bias: Option<Parameter>,
    /// \[C\], zeros at first.
    pub running_mean: Option<ModelBuffer>,
    /// \[C\], ones at first.
    pub running_var: Option<ModelBuffer>,
    /// A count of the shards that the running values have followed.
    pub num_batches_tracked: Option<ModelBuffer>,
    /// What the layer was made with.
    pub config: BatchNormConfig,
    /// The layer's name, and the shapes that it takes.
    name: &'static str,
    expected: &'static str,
    ranks: std::ops::RangeInclusive<usize>,
}

/// Batch norm of \[N, C\] or \[N, C, L\], as `torch.nn.BatchNorm1d`; see [`BatchNorm`].
#[derive(Clone, Debug)]
pub struct BatchNorm1d(BatchNorm);

/// Batch norm of \[N, C, H, W\], as `torch.nn.BatchNorm2d`; see [`BatchNorm`].
///
/// ```
/// use hlx_autograd::{BackwardPlan, DType, Tensor};
/// use hlx_core::Device;
/// use hlx_nn::{BatchNorm2d, Mode, Model, Module};
///
/// let device = Device::open("cpu")?;
/// let norm = Model::new(&device, 42, |b| Ok(BatchNorm2d::new(b, 8)))?;
/// let images = Tensor::randn(&device, &[4, 8, 5, 5], 7)?.with_samples(0)?;
/// let y = norm.forward(&images, &Mode::train(&device, 42)?)?;
/// y.sum()?.backward_with(&BackwardPlan::default())?;
/// let y = norm.forward(&images, &Mode::eval())?;
/// assert_eq!(y.shape(), [4, 8, 5, 5]);
/// # Ok::<(), hlx_nn::NnError>(())
/// ```
#[derive(Clone, Debug)]
pub struct BatchNorm2d(BatchNorm);

impl BatchNorm1d {
    /// Declares `weight`, `bias` and the running values, with PyTorch's defaults.
    pub fn new(builder: &mut ParameterBuilder, channels: usize) -> Self {
        Self::with_config(builder, channels, BatchNormConfig::default())
    }

    /// As [`BatchNorm1d::new`], with a configuration of one's own.
    pub fn with_config(
        builder: &mut ParameterBuilder,
        channels: usize,
        config: BatchNormConfig,
    ) -> Self {
        let (name, expected) = ("BatchNorm1d", "[N, C] or [N, C, L]");
        Self(BatchNorm {
            name,
            expected,
            ranks: 2..=3,
            ..BatchNorm::declare(builder, channels, config)
        })
    }
}

impl BatchNorm2d {
    /// Declares `weight`, `bias` and the running values, with PyTorch's defaults.
    pub fn new(builder: &mut ParameterBuilder, channels: usize) -> Self {
        Self::with_config(builder, channels, BatchNormConfig::default())
    }

    /// As [`BatchNorm2d::new`], with a configuration of one's own.
    pub fn with_config(
        builder: &mut ParameterBuilder,
        channels: usize,
        config: BatchNormConfig,
    ) -> Self {
        Self(BatchNorm::declare(builder, channels, config))
    }
}

impl BatchNorm {
    /// Declares the parameters and buffers of a norm of images.
    fn declare(builder: &mut ParameterBuilder, channels: usize, config: BatchNormConfig) -> Self {
        let shape = &[channels];
        let tracks = config.track_running_stats;
        let affine = config
            .affine
            .then(|| declare_gain_and_bias(builder, channels));
        let (weight, bias) = affine.map(|[weight, bias]| (weight, bias)).unzip();
        Self {
            weight,
            bias,
            running_mean: tracks.then(|| builder.buffer("running_mean", shape, 0.0)),
            running_var: tracks.then(|| builder.buffer("running_var", shape, 1.0)),
            num_batches_tracked: tracks.then(|| builder.count("num_batches_tracked")),
            config,
            name: "BatchNorm2d",
            expected: "[N, C, H, W]",
            ranks: 4..=4,
        }
    }

    /// Mean, variance and count.
    fn running(&self) -> Result<Option<[Tensor; 3]>> {
        match (
            &self.running_mean,
            &self.running_var,
            &self.num_batches_tracked,
        ) {
            (Some(mean), Some(variance), Some(tracked)) => Ok(Some([
                mean.tensor()?,
                variance.tensor()?,
                tracked.tensor()?,
            ])),
            _ => Ok(None),
        }
    }

    fn apply(&self, x: &Tensor, mode: &Mode) -> Result<Tensor> {
        if !self.ranks.contains(&x.rank()) {
            return Err(NnError::Shape {
                op: self.name,
                argument: "the input",
                found: x.shape().to_vec(),
                expected: self.expected.to_owned(),
            });
        }
        let affine = gain_and_bias(self.weight.as_ref(), self.bias.as_ref())?;
        let affine = affine.as_ref().map(|[weight, bias]| [weight, bias]);
        let running = self.running()?;
        if let (false, Some([mean, variance, _])) = (mode.is_training(), &running) {
            return Ok(x.batch_norm_by(mean, variance, affine, self.config.eps)?);
        }
        if mode.is_part_of_shard() {
            let reason = format!("{} needs passes that hold whole shards", self.name);
            return Err(NnError::MicroBatches { reason });
        }
        let options = BatchNormOptions {
            eps: self.config.eps,
            momentum: self.config.momentum,
            shards: mode.shards(),
            empty: mode.empty_samples(),
            partials: None,
        };
        let running = running.as_ref().filter(|_| mode.is_training());
        if let (Some(deferred), Some(running)) = (mode.deferred_norms(), running) {
            let partials = deferred.add(x, running, &options)?;
            let options = BatchNormOptions {
                partials: Some(&partials),
                ..options
            };
            return Ok(x.batch_norm(affine, None, &options)?);
        }
        let running = running.map(|[mean, variance, tracked]| RunningStatistics {
            mean,
            variance,
            tracked,
        });
        Ok(x.batch_norm(affine, running, &options)?)
    }
}

macro_rules! norm {
    ($name:ident) => {
        impl Deref for $name {
            type Target = BatchNorm;

            fn deref(&self) -> &BatchNorm {
                &self.0
            }
        }

        impl Module for $name {
            /// The shape stays.
            fn forward(&self, x: &Tensor, mode: &Mode) -> Result<Tensor> {
                self.0.apply(x, mode)
            }
        }
    };
}
norm!(BatchNorm1d);
norm!(BatchNorm2d);
