//! Gradient descent, with or without momentum.

use hlx_core::{Buffer, Device};
use hlx_kernels::optimizer::{Hyper, Update, sgd_momentum_step, sgd_step};

use super::checks::{refused, within};
use super::{Common, FlatOptimizer, UpdateRule};
use crate::Result;

/// The numbers of [`SGD`]; the default is plain descent.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SGDConfig {
    /// The factor of the previous step's direction; 0 has no state.
    pub momentum: f64,
    /// The part of each gradient, from the second step on, that the momentum leaves out.
    pub dampening: f64,
    /// Steps along the gradient plus `momentum` times the new direction (Nesterov's rule).
    pub nesterov: bool,
    /// Weight decay (an L2 penalty, added to the gradient), clips and groups.
    pub common: Common,
}

/// Gradient descent, as `torch.optim.SGD`.
pub type SGD = FlatOptimizer<SGDConfig>;

impl UpdateRule for SGDConfig {
    const NAME: &'static str = "sgd";

    fn common(&self) -> &Common {
        &self.common
    }

    fn check(&self) -> Result<()> {
        within("momentum", self.momentum, 0.0, f64::INFINITY)?;
        within("dampening", self.dampening, 0.0, f64::INFINITY)?;
        if self.nesterov && (self.momentum == 0.0 || self.dampening != 0.0) {
            return Err(refused(format!(
                "nesterov with momentum {} and dampening {}, expected a momentum and no dampening",
                self.momentum, self.dampening
            )));
        }
        Ok(())
    }

    fn state(&self) -> Vec<(&'static str, f32)> {
        match self.momentum {
            0.0 => Vec::new(),
            _ => vec![("momentum", 0.0)],
        }
    }

    fn hyper(&self, _: u64, learning_rate: f64) -> Hyper {
        Hyper {
            learning_rate,
            momentum: self.momentum,
            dampening: self.dampening,
            ..Hyper::default()
        }
    }

    fn launch(&self, device: &Device, update: &Update<'_>, state: &[Buffer]) -> Result<()> {
        Ok(match state {
            [momentum] => sgd_momentum_step(device, update, momentum, self.nesterov),
            _ => sgd_step(device, update),
        }?)
    }
}
