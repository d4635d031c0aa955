//! Dropout.

use hlx_autograd::{DropoutMask, Tensor};

use crate::init::DROPOUT_PURPOSE;
use crate::{Mode, Module, ParameterBuilder, Result};

/// Zeroes elements with probability p and scales the rest by 1 / (1 - p) in training, as
/// `torch.nn.Dropout`; does nothing in evaluation.
#[derive(Clone, Debug)]
pub struct Dropout {
    p: f32,
    purpose: u32,
}

impl Dropout {
    /// Makes a dropout with a place of its own in the model, so that its masks are its own; `p` is in
    /// [0, 1).
    pub fn new(builder: &mut ParameterBuilder, p: f32) -> Self {
        Self {
            p,
            purpose: DROPOUT_PURPOSE + builder.dropout_place(p),
        }
    }

    /// Whether the layer changes its input in this mode.
    pub fn is_active(&self, mode: &Mode) -> bool {
        self.p > 0.0 && mode.is_training()
    }

    /// What the layer drops in this mode, for operations that drop by themselves.
    ///
    /// # Errors
    /// What the device reports.
    pub(crate) fn mask(&self, mode: &Mode) -> Result<Option<DropoutMask>> {
        mode.mask(self.p, self.purpose)
    }
}

impl Module for Dropout {
    /// The shape, whose first dimension counts samples, stays.
    fn forward(&self, x: &Tensor, mode: &Mode) -> Result<Tensor> {
        match self.mask(mode)? {
            Some(mask) => Ok(x.dropout(&mask)?),
            None => Ok(x.clone()),
        }
    }
}
