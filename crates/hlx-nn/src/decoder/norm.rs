//! The norms of the residual stream, of one kind a model.

use std::cell::OnceCell;

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

/// What the layers of a branch read: a tensor, or its norm, which is computed when a layer first needs its values.
pub(crate) struct Normed<'a> {
    x: &'a Tensor,
    norm: Option<&'a Norm>,
    value: OnceCell<Tensor>,
}

impl<'a> Normed<'a> {
    /// The norm of x.
    pub fn by(norm: &'a Norm, x: &'a Tensor) -> Self {
        Self {
            x,
            norm: Some(norm),
            value: OnceCell::new(),
        }
    }

    /// The tensor as it is.
    pub fn plain(x: &'a Tensor) -> Self {
        Self {
            x,
            norm: None,
            value: OnceCell::new(),
        }
    }

    /// The values.
    pub fn value(&self, mode: &Mode) -> Result<Tensor> {
        let Some(norm) = self.norm else {
            return Ok(self.x.clone());
        };
        if let Some(value) = self.value.get() {
            return Ok(value.clone());
        }
        let value = norm.forward(self.x, mode)?;
        Ok(self.value.get_or_init(|| value).clone())
    }

    /// For operations that take an RMS norm in: the tensor before the norm, the gain and what is added under the root;
    /// without a gain the values, where they are known already and of other norms.
    pub fn operand(&self, mode: &Mode) -> Result<(Tensor, Option<(Tensor, f32)>)> {
        let gain = match (self.norm, self.value.get()) {
            (Some(norm), None) => norm.plain_gain()?,
            _ => None,
        };
        match gain {
            Some(gain) => Ok((self.x.clone(), Some(gain))),
            None => Ok((self.value(mode)?, None)),
        }
    }
}
