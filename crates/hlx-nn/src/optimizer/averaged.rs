//! An exponential moving average of a model's parameters, held beside an optimizer.

use hlx_core::{Buffer, Device};
use hlx_kernels::optimizer::{HYPER_LEN, Hyper, Update, average_step};

use super::checks::within;
use super::drive::Drive;
use super::{Optimizer, OwnLayout};
use crate::{Result, Weights};

/// The name of the average in an optimizer's state: `average/blocks.0.attention.qkv.weight`.
pub const AVERAGE: &str = "average";

/// An optimizer with a moving average of the parameters, which follows each of its steps:
/// `average + (1 - decay) (parameter - average)`, and at the first step the parameter itself. PyTorch:
/// `torch.optim.swa_utils.AveragedModel` with `get_ema_multi_avg_fn(decay)`.
///
/// The average is a part of the optimizer's state, and so of checkpoints and digests. A step that is
/// skipped ([`Optimizer::guard`]) leaves the parameters, and the average moves towards them.
///
/// ```
/// use hlx_core::Device;
/// use hlx_nn::{AdamW, AdamWConfig, Averaged, Init, Optimizer, ParameterBuilder};
///
/// let device = Device::open("cpu")?;
/// let mut builder = ParameterBuilder::new();
/// let weight = builder.parameter("weight", &[3], Init::Ones);
/// let weights = builder.build(&device, 0)?;
/// let adamw = Box::new(AdamW::new(&weights, AdamWConfig::default())?);
/// let mut optimizer = Averaged::new(&weights, adamw, 0.99)?;
/// weight.tensor()?.sum()?.backward()?;
/// optimizer.step(&weights, 0.1)?;
/// assert_eq!(weights.download(optimizer.average())?, weights.download(weights.values())?);
/// # Ok::<(), hlx_nn::NnError>(())
/// ```
pub struct Averaged {
    device: Device,
    inner: Box<dyn Optimizer>,
    decay: f64,
    average: Buffer,
    hyper: Buffer,
    /// The factor of a step that is never skipped.
    one: Buffer,
}

impl Averaged {
    /// Keeps an average of the weights that `inner` updates.
    ///
    /// # Errors
    /// [`NnError::Config`](crate::NnError::Config) for a decay that is not within [0, 1), and what the
    /// device reports.
    pub fn new(weights: &Weights, inner: Box<dyn Optimizer>, decay: f64) -> Result<Self> {
        within("the average's decay", decay, 0.0, 1.0)?;
        let device = weights.device();
        Ok(Self {
            device: device.clone(),
            inner,
            decay,
            average: weights.state_zeros()?,
            hyper: device.alloc(HYPER_LEN)?,
            one: device.buffer_of::<u32>(&[1.0_f32.to_bits()])?,
        })
    }

    /// The average of the words that this process updates ([`Weights::updated`]): by default all, in the
    /// layout of the weights' values. Zeros before the first step.
    pub fn average(&self) -> &Buffer {
        &self.average
    }
}

impl Optimizer for Averaged {
    fn name(&self) -> &'static str {
        self.inner.name()
    }

    fn drive(&self) -> &Drive {
        self.inner.drive()
    }

    fn drive_mut(&mut self) -> &mut Drive {
        self.inner.drive_mut()
    }

    fn prepare(&mut self, learning_rate: f64) -> Result<()> {
        self.inner.prepare(learning_rate)?;
        let is_first = self.inner.step_count() == 1;
        let numbers = Hyper {
            beta1: if is_first { 0.0 } else { self.decay },
            ..Hyper::default()
        };
        Ok(self.device.upload_words(&self.hyper, &numbers.to_words())?)
    }

    fn update(&self, weights: &Weights) -> Result<()> {
        self.inner.update(weights)?;
        let values = weights.updated_of(weights.values())?;
        let update = Update::new(&self.average, &values, &self.hyper, &self.one);
        match values.is_empty() {
            true => Ok(()),
            false => Ok(average_step(&self.device, &update)?),
        }
    }

    fn buffers(&self) -> Vec<(&'static str, &Buffer)> {
        let mut buffers = self.inner.buffers();
        buffers.push((AVERAGE, &self.average));
        buffers
    }

    fn layout(&self, buffer: &str) -> Option<&OwnLayout> {
        match buffer {
            AVERAGE => None,
            of_inner => self.inner.layout(of_inner),
        }
    }
}
