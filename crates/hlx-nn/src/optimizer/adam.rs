//! Adam (Kingma and Ba 2015) and AdamW (Loshchilov and Hutter 2019).

use hlx_core::{Buffer, Device};
use hlx_kernels::optimizer::{Hyper, Update, adam_step, adamw_step};

use super::checks::{check_epsilon, within};
use super::{Common, FlatOptimizer, UpdateRule};
use crate::Result;

/// The numbers of [`Adam`].
#[derive(Clone, Debug, PartialEq)]
pub struct AdamConfig {
    /// The decay of the mean and of the square.
    pub betas: [f64; 2],
    /// Added to the root in the denominator; at least 2^-126, the least f32 that is not flushed.
    pub eps: f64,
    /// Weight decay (an L2 penalty, added to the gradient), clips and groups.
    pub common: Common,
}

impl Default for AdamConfig {
    /// PyTorch's defaults: betas 0.9 and 0.999, eps 1e-8, no penalty; no clip.
    fn default() -> Self {
        Self {
            betas: [0.9, 0.999],
            eps: 1e-8,
            common: Common::default(),
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
    /// Weight decay (decoupled: the parameter times decay times rate per step, for all parameters that no
    /// group exempts), clips and groups.
    pub common: Common,
}

impl Default for AdamWConfig {
    /// PyTorch's defaults: betas 0.9 and 0.999, eps 1e-8, decay 0.01; no clip.
    fn default() -> Self {
        Self {
            betas: [0.9, 0.999],
            eps: 1e-8,
            common: Common::with_weight_decay(0.01),
        }
    }
}

/// Adam with an L2 penalty, as `torch.optim.Adam`.
pub type Adam = FlatOptimizer<AdamConfig>;

/// Adam with decoupled weight decay, as `torch.optim.AdamW`.
pub type AdamW = FlatOptimizer<AdamWConfig>;

/// Fails for a decay of a running mean that is not within [0, 1).
pub(super) fn check_betas(betas: [f64; 2]) -> Result<()> {
    betas
        .into_iter()
        .try_for_each(|beta| within("betas", beta, 0.0, 1.0))
}

/// The two differ by their name and kernel alone.
macro_rules! rule {
    ($config:ty, $name:literal, $kernel:path) => {
        impl UpdateRule for $config {
            const NAME: &'static str = $name;

            fn common(&self) -> &Common {
                &self.common
            }

            fn check(&self) -> Result<()> {
                check_betas(self.betas)?;
                check_epsilon("eps", self.eps)
            }

            fn state(&self) -> Vec<(&'static str, f32)> {
                vec![("mean", 0.0), ("square", 0.0)]
            }

            fn hyper(&self, _: u64, learning_rate: f64) -> Hyper {
                let [beta1, beta2] = self.betas;
                Hyper {
                    learning_rate,
                    beta1,
                    beta2,
                    epsilon: self.eps,
                    ..Hyper::default()
                }
            }

            fn launch(&self, device: &Device, update: &Update<'_>, state: &[Buffer]) -> Result<()> {
                Ok($kernel(device, update, &state[0], &state[1])?)
            }
        }
    };
}

rule!(AdamConfig, "adam", adam_step);
rule!(AdamWConfig, "adamw", adamw_step);
