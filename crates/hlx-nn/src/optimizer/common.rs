//! What the configurations of all optimizers share.

use super::checks::within;
use super::groups::ParameterGroup;
use crate::Result;

/// What the configurations of all optimizers share.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Common {
    /// The weight decay of parameters in no group.
    pub weight_decay: f64,
    /// The global norm that gradients are scaled down to, if it is larger.
    pub clip_norm: Option<f32>,
    /// The largest magnitude of a gradient's element, after the norm's clip.
    pub clip_value: Option<f32>,
    /// Leaves out the norm of all gradients where neither a limit nor a guard reads it;
    /// [`Optimizer::gradient_norm`](crate::Optimizer::gradient_norm) stays 0 then.
    pub skips_norm: bool,
    /// Parameters with numbers of their own.
    pub groups: Vec<ParameterGroup>,
}

impl Common {
    /// A weight decay, no clips and no groups.
    pub fn with_weight_decay(weight_decay: f64) -> Self {
        Self {
            weight_decay,
            ..Self::default()
        }
    }

    /// Fails for a weight decay that is out of range.
    pub(super) fn check(&self) -> Result<()> {
        within("weight_decay", self.weight_decay, 0.0, f64::INFINITY)
    }
}
