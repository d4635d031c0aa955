//! RMSprop (Hinton 2012, lecture 6).

use hlx_core::{Buffer, Device};
use hlx_kernels::optimizer::{Hyper, Update, rmsprop_step};

use super::checks::{check_epsilon, within};
use super::{Common, FlatOptimizer, UpdateRule};
use crate::Result;

/// The numbers of [`RMSprop`].
#[derive(Clone, Debug, PartialEq)]
pub struct RMSpropConfig {
    /// The decay of the mean square, and of the mean if `centered`.
    pub alpha: f64,
    /// Added to the root in the denominator; at least 2^-126, the least f32 that is not flushed.
    pub eps: f64,
    /// The factor of the previous step's direction; 0 has none.
    pub momentum: f64,
    /// Divides by the root of the variance instead of the mean square.
    pub centered: bool,
    /// Weight decay (an L2 penalty, added to the gradient), clips and groups.
    pub common: Common,
}

impl Default for RMSpropConfig {
    /// PyTorch's defaults: alpha 0.99, eps 1e-8, no momentum, not centered, no penalty; no clip.
    fn default() -> Self {
        Self {
            alpha: 0.99,
            eps: 1e-8,
            momentum: 0.0,
            centered: false,
            common: Common::default(),
        }
    }
}

/// Descent by the root of the running mean of squared gradients, as `torch.optim.RMSprop`. A
/// variance that rounding makes negative counts as 0, where PyTorch's parameter becomes NaN.
pub type RMSprop = FlatOptimizer<RMSpropConfig>;

impl UpdateRule for RMSpropConfig {
    const NAME: &'static str = "rmsprop";

    fn common(&self) -> &Common {
        &self.common
    }

    fn check(&self) -> Result<()> {
        within("alpha", self.alpha, 0.0, 1.0)?;
        within("momentum", self.momentum, 0.0, f64::INFINITY)?;
        check_epsilon("eps", self.eps)
    }

    fn state(&self) -> Vec<(&'static str, f32)> {
        let mut state = vec![("square", 0.0)];
        state.extend((self.momentum != 0.0).then_some(("momentum", 0.0)));
        state.extend(self.centered.then_some(("mean", 0.0)));
        state
    }

    fn hyper(&self, _: u64, learning_rate: f64) -> Hyper {
        Hyper {
            learning_rate,
            momentum: self.momentum,
            beta2: self.alpha,
            epsilon: self.eps,
            ..Hyper::default()
        }
    }

    fn launch(&self, device: &Device, update: &Update<'_>, state: &[Buffer]) -> Result<()> {
        let momentum = (self.momentum != 0.0).then(|| &state[1]);
        let mean = if self.centered { state.last() } else { None };
        Ok(rmsprop_step(device, update, &state[0], momentum, mean)?)
    }
}
