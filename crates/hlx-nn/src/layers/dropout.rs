//! Dropout.

use hlx_autograd::Tensor;

use crate::init::DROPOUT_PURPOSE;
use crate::{ForwardContext, Result};

/// Zeroes elements with probability p and scales the rest by 1 / (1 - p) in training, as
/// `torch.nn.Dropout`; does nothing in evaluation.
#[derive(Clone, Debug)]
pub struct Dropout {
    p: f32,
    purpose: u32,
}

impl Dropout {
    /// Makes the dropout of a place in the model; no two of one model share a `place_idx`.
    pub fn new(p: f32, place_idx: u32) -> Self {
        Self {
            p,
            purpose: DROPOUT_PURPOSE + place_idx,
        }
    }

    /// Whether the layer changes its input in this context.
    pub fn is_active(&self, context: &ForwardContext) -> bool {
        self.p > 0.0 && context.draws_masks()
    }

    /// Applies the layer to \[B, T, C\].
    ///
    /// # Errors
    /// An input of another number of dimensions.
    pub fn forward(&self, x: &Tensor, context: &ForwardContext) -> Result<Tensor> {
        match context.mask(self.p, self.purpose) {
            Some(mask) if self.is_active(context) => Ok(x.dropout(&mask)?),
            _ => Ok(x.clone()),
        }
    }
}
