//! The norms of the residual stream, of one kind a model.

use hlx_autograd::Tensor;

use super::{CausalConfig, NormKind};
use crate::layers::{LayerNorm, RMSNorm};
use crate::{Mode, Module, ParameterBuilder, Result};

/// A norm over the last dimension.
#[derive(Clone, Debug)]
pub(crate) enum Norm {
    Layer(LayerNorm),
    Rms(RMSNorm),
}

impl Norm {
    /// Declares a norm of a model over `width` elements.
    pub fn new(builder: &mut ParameterBuilder, config: &CausalConfig, width: usize) -> Self {
        let eps = config.norm_eps;
        match config.norm {
            NormKind::LayerNorm => Self::Layer(LayerNorm::new(builder, width).with_eps(eps)),
            NormKind::RmsNorm => Self::Rms(RMSNorm::new(builder, &[width]).with_eps(eps)),
            NormKind::RmsNormOnePlus => {
                Self::Rms(RMSNorm::one_plus(builder, &[width]).with_eps(eps))
            }
        }
    }

    /// The gain of an RMS norm that multiplies by it, and what is added under the root.
    pub fn plain_gain(&self) -> Result<Option<(Tensor, f32)>> {
        match self {
            Self::Rms(norm) => norm.plain_gain(),
            Self::Layer(_) => Ok(None),
        }
    }
}

impl Module for Norm {
    fn forward(&self, x: &Tensor, mode: &Mode) -> Result<Tensor> {
        match self {
            Self::Layer(norm) => norm.forward(x, mode),
            Self::Rms(norm) => norm.forward(x, mode),
        }
    }
}
