//! Lion (Chen et al. 2023).

use hlx_core::{Buffer, Device};
use hlx_kernels::optimizer::{Hyper, Update, lion_step};

use super::adam::check_betas;
use super::{Common, FlatOptimizer, UpdateRule};
use crate::Result;

/// The numbers of [`Lion`].
#[derive(Clone, Debug, PartialEq)]
pub struct LionConfig {
    /// The weight of the mean in the step's direction, and the mean's decay.
    pub betas: [f64; 2],
    /// Weight decay (decoupled: the parameter times decay times rate per step), clips and groups.
    pub common: Common,
}

impl Default for LionConfig {
    /// The paper's: betas 0.9 and 0.99, no decay; no clip.
    fn default() -> Self {
        Self {
            betas: [0.9, 0.99],
            common: Common::default(),
        }
    }
}

/// Steps of one size along the sign of a mean of gradients: algorithm 2 of "Symbolic discovery of
/// optimization algorithms". `torch.optim` has none. Its rate is 3 to 10 times smaller than AdamW's,
/// its decay as much larger.
pub type Lion = FlatOptimizer<LionConfig>;

impl UpdateRule for LionConfig {
    const NAME: &'static str = "lion";

    fn common(&self) -> &Common {
        &self.common
    }

    fn check(&self) -> Result<()> {
        check_betas(self.betas)
    }

    fn state(&self) -> Vec<(&'static str, f32)> {
        vec![("mean", 0.0)]
    }

    fn hyper(&self, _: u64, learning_rate: f64) -> Hyper {
        let [beta1, beta2] = self.betas;
        Hyper {
            learning_rate,
            beta1,
            beta2,
            ..Hyper::default()
        }
    }

    fn launch(&self, device: &Device, update: &Update<'_>, state: &[Buffer]) -> Result<()> {
        Ok(lion_step(device, update, &state[0])?)
    }
}
