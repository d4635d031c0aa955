//! Adagrad (Duchi, Hazan and Singer 2011).

use hlx_core::{Buffer, Device};
use hlx_kernels::optimizer::{Hyper, Update, adagrad_step};

use super::checks::{check_epsilon, within};
use super::{Common, FlatOptimizer, UpdateRule};
use crate::Result;

/// The numbers of [`Adagrad`].
#[derive(Clone, Debug, PartialEq)]
pub struct AdagradConfig {
    /// Step `t`, from 1, has the rate divided by `1 + (t - 1) lr_decay`.
    pub lr_decay: f64,
    /// What the sums of squares begin with.
    pub initial_accumulator_value: f64,
    /// Added to the root in the denominator; at least 2^-126, the least f32 that is not flushed.
    pub eps: f64,
    /// Weight decay (an L2 penalty, added to the gradient), clips and groups.
    pub common: Common,
}

impl Default for AdagradConfig {
    /// PyTorch's defaults: eps 1e-10, all else 0; no clip.
    fn default() -> Self {
        Self {
            lr_decay: 0.0,
            initial_accumulator_value: 0.0,
            eps: 1e-10,
            common: Common::default(),
        }
    }
}

/// Descent by the root of the sum of squared gradients, as `torch.optim.Adagrad`.
pub type Adagrad = FlatOptimizer<AdagradConfig>;

impl UpdateRule for AdagradConfig {
    const NAME: &'static str = "adagrad";

    fn common(&self) -> &Common {
        &self.common
    }

    fn check(&self) -> Result<()> {
        let unlimited = f64::INFINITY;
        within("lr_decay", self.lr_decay, 0.0, unlimited)?;
        let start = self.initial_accumulator_value;
        within("initial_accumulator_value", start, 0.0, unlimited)?;
        check_epsilon("eps", self.eps)
    }

    fn state(&self) -> Vec<(&'static str, f32)> {
        vec![("sum", self.initial_accumulator_value as f32)]
    }

    fn hyper(&self, step: u64, learning_rate: f64) -> Hyper {
        Hyper {
            learning_rate: learning_rate / (1.0 + (step - 1) as f64 * self.lr_decay),
            epsilon: self.eps,
            ..Hyper::default()
        }
    }

    fn launch(&self, device: &Device, update: &Update<'_>, state: &[Buffer]) -> Result<()> {
        Ok(adagrad_step(device, update, &state[0])?)
    }
}
