//! Adam (Kingma and Ba 2015) and AdamW (Loshchilov and Hutter 2019).

use hlx_core::Buffer;
use hlx_kernels::optimizer::{Hyper, adam_step, adamw_step};

use super::Optimizer;
use super::drive::Drive;
use crate::error::NnError;
use crate::{ParameterStore, Result};

/// The numbers of [`Adam`].
#[derive(Clone, Debug, PartialEq)]
pub struct AdamConfig {
    /// The decay of the mean and of the square.
    pub betas: [f64; 2],
    /// Added to the root in the denominator; at least 2^-126, the least f32 that is not flushed.
    pub eps: f64,
    /// The L2 penalty, added to the gradient.
    pub weight_decay: f64,
    /// The global norm that gradients are scaled down to, if it is larger.
    pub clip_norm: Option<f32>,
}

impl Default for AdamConfig {
    /// PyTorch's defaults: betas 0.9 and 0.999, eps 1e-8, no penalty; no clip.
    fn default() -> Self {
        Self {
            betas: [0.9, 0.999],
            eps: 1e-8,
            weight_decay: 0.0,
            clip_norm: None,
        }
    }
}

/// The numbers of [`AdamW`].
#[derive(Clone, Debug, PartialEq)]
pub struct AdamWConfig {
    /// The decay of the mean and of the square.
    pub betas: [f64; 2],
    /// Added to the root in the denominator; at least 2^-126, the least f32 that is not flushed.
    pub eps: f64,
    /// The decay, a part of the parameter times the rate a step; all parameters decay.
    pub weight_decay: f64,
    /// The global norm that gradients are scaled down to, if it is larger.
    pub clip_norm: Option<f32>,
}

impl Default for AdamWConfig {
    /// PyTorch's defaults: betas 0.9 and 0.999, eps 1e-8, decay 0.01; no clip.
    fn default() -> Self {
        Self {
            betas: [0.9, 0.999],
            eps: 1e-8,
            weight_decay: 0.01,
            clip_norm: None,
        }
    }
}

/// Adam with an L2 penalty, as `torch.optim.Adam`.
#[derive(Debug)]
pub struct Adam(Moments);

/// Adam with decoupled weight decay, as `torch.optim.AdamW`.
#[derive(Debug)]
pub struct AdamW(Moments);

/// The two running means and their numbers.
#[derive(Debug)]
struct Moments {
    config: AdamConfig,
    drive: Drive,
    mean: Buffer,
    square: Buffer,
}

impl Moments {
    fn new(store: &ParameterStore, config: AdamConfig) -> Result<Self> {
        check_epsilon(config.eps)?;
        let drive = Drive::new(store, config.clip_norm)?;
        Ok(Self {
            config,
            drive,
            mean: store.zeros_like()?,
            square: store.zeros_like()?,
        })
    }

    fn prepare(&mut self, learning_rate: f64) -> Result<()> {
        let AdamConfig {
            betas: [beta1, beta2],
            eps,
            weight_decay,
            ..
        } = self.config;
        self.drive.upload(Hyper {
            learning_rate,
            beta1,
            beta2,
            epsilon: eps,
            weight_decay,
            ..Hyper::default()
        })
    }

    fn buffers(&self) -> Vec<(&'static str, &Buffer)> {
        vec![("mean", &self.mean), ("square", &self.square)]
    }
}

/// Fails for an epsilon that is zero as an f32 (subnormals are): an element whose gradient has
/// always been 0 would be divided by zero.
fn check_epsilon(eps: f64) -> Result<()> {
    let normal = (eps as f32) >= f32::MIN_POSITIVE && (eps as f32).is_finite();
    if normal {
        return Ok(());
    }
    let reason = format!("eps is {eps:e}, expected at least 2^-126 (1.18e-38) and finite");
    Err(NnError::Config {
        what: "optimizer",
        reason,
    })
}

impl Adam {
    /// Makes the optimizer of a store, with zero moments.
    ///
    /// # Errors
    /// A clip that is not positive, an epsilon that flushes to zero, and what the device reports.
    pub fn new(store: &ParameterStore, config: AdamConfig) -> Result<Self> {
        Ok(Self(Moments::new(store, config)?))
    }
}

impl AdamW {
    /// Makes the optimizer of a store, with zero moments.
    ///
    /// # Errors
    /// A clip that is not positive, an epsilon that flushes to zero, and what the device reports.
    pub fn new(store: &ParameterStore, config: AdamWConfig) -> Result<Self> {
        let AdamWConfig {
            betas,
            eps,
            weight_decay,
            clip_norm,
        } = config;
        Ok(Self(Moments::new(
            store,
            AdamConfig {
                betas,
                eps,
                weight_decay,
                clip_norm,
            },
        )?))
    }
}

/// The two differ by their kernel alone.
macro_rules! optimizer {
    ($type:ty, $name:literal, $kernel:path) => {
        impl Optimizer for $type {
            fn name(&self) -> &'static str {
                $name
            }

            fn step_count(&self) -> u64 {
                self.0.drive.steps
            }

            fn prepare(&mut self, learning_rate: f64) -> Result<()> {
                self.0.prepare(learning_rate)
            }

            fn update(&self, store: &ParameterStore) -> Result<()> {
                let Moments {
                    drive,
                    mean,
                    square,
                    ..
                } = &self.0;
                drive.measure(store)?;
                let (values, gradients) = (store.values(), store.gradients());
                let (ctx, hyper, clip) = (store.context(), &drive.hyper, &drive.clip);
                Ok($kernel(ctx, values, gradients, mean, square, hyper, clip)?)
            }

            fn gradient_norm(&self) -> &Buffer {
                &self.0.drive.norm
            }

            fn buffers(&self) -> Vec<(&'static str, &Buffer)> {
                self.0.buffers()
            }

            fn set_step_count(&mut self, steps: u64) {
                self.0.drive.steps = steps;
            }
        }
    };
}

optimizer!(Adam, "adam", adam_step);
optimizer!(AdamW, "adamw", adamw_step);
