//! Gradient descent, with or without momentum.

use hlx_core::Buffer;
use hlx_kernels::optimizer::{Hyper, sgd_step};

use super::Optimizer;
use super::drive::Drive;
use crate::{ParameterStore, Result};

/// The numbers of [`Sgd`]; the default is plain descent.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SgdConfig {
    /// The factor of the previous step's direction; 0 keeps no state.
    pub momentum: f64,
    /// The L2 penalty, added to the gradient.
    pub weight_decay: f64,
    /// The global norm that gradients are scaled down to, if it is larger.
    pub clip_norm: Option<f32>,
}

/// Gradient descent, as `torch.optim.SGD` without dampening and Nesterov's rule.
#[derive(Debug)]
pub struct Sgd {
    config: SgdConfig,
    drive: Drive,
    momentum: Option<Buffer>,
}

impl Sgd {
    /// Makes the optimizer of a store, with zero momentum.
    ///
    /// # Errors
    /// A clip that is not positive, and what the device reports.
    pub fn new(store: &ParameterStore, config: SgdConfig) -> Result<Self> {
        let drive = Drive::new(store, config.clip_norm)?;
        let momentum = match config.momentum {
            0.0 => None,
            _ => Some(store.zeros_like()?),
        };
        Ok(Self {
            config,
            drive,
            momentum,
        })
    }
}

impl Optimizer for Sgd {
    fn name(&self) -> &'static str {
        "sgd"
    }

    fn step_count(&self) -> u64 {
        self.drive.steps
    }

    fn prepare(&mut self, learning_rate: f64) -> Result<()> {
        self.drive.upload(Hyper {
            learning_rate,
            momentum: self.config.momentum,
            weight_decay: self.config.weight_decay,
            ..Hyper::default()
        })
    }

    fn update(&self, store: &ParameterStore) -> Result<()> {
        self.drive.measure(store)?;
        let (values, gradients) = (store.values(), store.gradients());
        let (ctx, hyper, clip) = (store.context(), &self.drive.hyper, &self.drive.clip);
        Ok(sgd_step(
            ctx,
            values,
            gradients,
            self.momentum.as_ref(),
            hyper,
            clip,
        )?)
    }

    fn gradient_norm(&self) -> &Buffer {
        &self.drive.norm
    }

    fn buffers(&self) -> Vec<(&'static str, &Buffer)> {
        self.momentum
            .iter()
            .map(|momentum| ("momentum", momentum))
            .collect()
    }

    fn set_step_count(&mut self, steps: u64) {
        self.drive.steps = steps;
    }
}
