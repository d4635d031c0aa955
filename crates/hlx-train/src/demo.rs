//! The founding experiment: one weight, learnt by gradient descent through the real kernels.
//!
//! `output = w * relu(x)` with x = 0.1, 0.2, ..., 25.6 is to equal `2 * relu(x)`: the mean squared
//! error is lowered by plain gradient descent at a rate of 0.001, from w = 1, until it is at most
//! 1e-6. Forward, backward and step run on the device; the losses and w have the same bits on
//! every one.

use anyhow::Result;
use hlx_core::cpu::with_flush;
use hlx_core::{Buffer, Device, arith};
use hlx_kernels::activation::{Activation, activation_forward};
use hlx_kernels::elementwise::{mul, scale_by};
use hlx_kernels::mse::{mse_backward, mse_forward};
use hlx_kernels::optimizer::{Hyper, Update, sgd_step};
use hlx_kernels::reduce::sum;

const N_VALUES: usize = 256;
const TARGET: f32 = 2.0;
const RATE: f64 = 0.001;
const ENOUGH: f32 = 1e-6;
const MAX_EPOCHS: u32 = 1000;

/// One epoch of the experiment.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Epoch {
    /// Its number, from 1.
    pub number: u32,
    /// The mean squared error before the step.
    pub loss: f32,
    /// The weight after the step.
    pub weight: f32,
}

/// What the experiment holds on the device.
struct Experiment {
    device: Device,
    x: Buffer,
    target: Buffer,
    weight: Buffer,
    /// One over the number of values.
    mean: Buffer,
    hyper: Buffer,
    /// A factor of 1: the gradient is not clipped.
    clip: Buffer,
}

/// Runs the experiment and passes each epoch to `report`.
///
/// # Errors
/// What the device reports.
pub fn scalar(device: &Device, report: impl FnMut(Epoch)) -> Result<Epoch> {
    Experiment::new(device)?.run(report)
}

/// Runs the experiment; returns its last epoch, and the network's outputs after it.
pub(crate) fn scalar_outputs(device: &Device) -> Result<(Epoch, Vec<f32>)> {
    let experiment = Experiment::new(device)?;
    let last = experiment.run(|_| {})?;
    let (output, _) = experiment.forward()?;
    Ok((last, device.download::<f32>(&output)?))
}

impl Experiment {
    fn run(&self, mut report: impl FnMut(Epoch)) -> Result<Epoch> {
        let mut number = 0;
        loop {
            number += 1;
            let loss = self.epoch()?;
            let weight = self.device.download::<f32>(&self.weight)?[0];
            let epoch = Epoch {
                number,
                loss,
                weight,
            };
            report(epoch);
            if loss <= ENOUGH || number == MAX_EPOCHS {
                return Ok(epoch);
            }
        }
    }

    fn new(device: &Device) -> Result<Self> {
        let values = with_flush(|| {
            let count = |n: usize| arith::div(n as f32, 10.0);
            (1..=N_VALUES).map(count).collect::<Vec<f32>>()
        });
        let x = device.buffer_of(&values)?;
        let hyper = Hyper {
            learning_rate: RATE,
            ..Hyper::default()
        };
        let experiment = Self {
            device: device.clone(),
            target: device.alloc(N_VALUES)?,
            weight: device.buffer_of(&[TARGET])?,
            mean: device.buffer_of(&[1.0 / N_VALUES as f32])?,
            hyper: device.buffer_of::<u32>(&hyper.to_words())?,
            clip: device.buffer_of(&[1.0])?,
            x,
        };
        let (target, _) = experiment.forward()?;
        device.copy(&target, &experiment.target)?;
        device.upload(&experiment.weight, &[1.0])?;
        Ok(experiment)
    }

    /// Returns w * relu(x), and relu(x).
    fn forward(&self) -> Result<(Buffer, Buffer)> {
        let (active, output) = (self.device.alloc(N_VALUES)?, self.device.alloc(N_VALUES)?);
        activation_forward(&self.device, Activation::ReLU, &self.x, &active)?;
        scale_by(&self.device, &active, &self.weight, &output)?;
        Ok((output, active))
    }

    /// One step down; returns the loss before it.
    fn epoch(&self) -> Result<f32> {
        let device = &self.device;
        let words = |n: usize| device.alloc(n);
        let (output, active) = self.forward()?;
        let (errors, total, loss) = (words(N_VALUES)?, words(1)?, words(1)?);
        mse_forward(device, &output, &self.target, &errors)?;
        sum(device, &errors, &total)?;
        scale_by(device, &total, &self.mean, &loss)?;
        let (doutput, dproduct, dweight) = (words(N_VALUES)?, words(N_VALUES)?, words(1)?);
        mse_backward(device, &output, &self.target, &self.mean, &doutput)?;
        mul(device, &doutput, &active, &dproduct)?;
        sum(device, &dproduct, &dweight)?;
        let update = Update::new(&self.weight, &dweight, &self.hyper, &self.clip);
        sgd_step(device, &update)?;
        Ok(device.download::<f32>(&loss)?[0])
    }
}
