//! What an operation saves of an input for its backward pass: the values, or how to compute them
//! again.

use std::sync::Arc;

use hlx_core::{Buffer, Device, last_moment};
use hlx_kernels::KernelTuning;
use hlx_kernels::activation::{Activation, activation_forward};
use hlx_kernels::product::{Source, takes_sources};

use crate::graph::backward::watch;
use crate::{AutogradError, Result, Tensor};

/// Computes values again, with the launches that computed them first, and so to the same bits.
pub(crate) type Recipe = Arc<dyn Fn() -> Result<Buffer> + Send + Sync>;

/// How to compute values again.
#[derive(Clone)]
pub(crate) struct Again {
    pub recipe: Recipe,
    /// What operands of products are made of in their place, where these take sources ([`takes_sources`]).
    pub origin: Option<Origin>,
}

impl Again {
    /// Those of an activation's result.
    pub fn of_activation(device: &Device, kind: Activation, x: Saved) -> Self {
        let origin = takes_sources(device).then(|| Origin::Activation {
            kind,
            x: Box::new(x.clone()),
        });
        let device = device.clone();
        let recipe: Recipe = Arc::new(move || {
            let x = x.values()?;
            let y = device.alloc(x.len())?;
            activation_forward(&device, kind, &x, &y)?;
            Ok(y)
        });
        Self { recipe, origin }
    }
}

/// What values are computed from: a [`Source`] with what was saved.
#[derive(Clone)]
pub(crate) enum Origin {
    Activation {
        kind: Activation,
        x: Box<Saved>,
    },
    Gated {
        kind: Activation,
        x: Box<Saved>,
        up: Box<Saved>,
    },
    LayerNorm {
        x: Box<Saved>,
        stats: Buffer,
        weight: Box<Saved>,
        bias: Box<Saved>,
    },
    RmsNorm {
        x: Box<Saved>,
        stats: Buffer,
        weight: Box<Saved>,
    },
}

impl Origin {
    /// Whether the values are a norm's, whose statistics must be known first.
    pub fn is_of_norm(&self) -> bool {
        matches!(self, Self::LayerNorm { .. } | Self::RmsNorm { .. })
    }

    /// Calls `body` with the source.
    pub fn with_source<R>(&self, body: impl FnOnce(Source<'_>) -> Result<R>) -> Result<R> {
        match self {
            Self::Activation { kind, x } => body(Source::Activation {
                kind: *kind,
                x: &x.values()?,
            }),
            Self::Gated { kind, x, up } => body(Source::Gated {
                kind: *kind,
                x: &x.values()?,
                up: &up.values()?,
            }),
            Self::LayerNorm {
                x,
                stats,
                weight,
                bias,
            } => body(Source::Norm {
                x: &x.values()?,
                stats,
                weight: &weight.values()?,
                bias: Some(&bias.values()?),
            }),
            Self::RmsNorm { x, stats, weight } => body(Source::Norm {
                x: &x.values()?,
                stats,
                weight: &weight.values()?,
                bias: None,
            }),
        }
    }
}

/// Values for a backward pass.
#[derive(Clone)]
pub(crate) enum Saved {
    Held(Held),
    Again(Again),
}

/// Values that stay in memory, and since when nobody may have changed them.
#[derive(Clone)]
pub(crate) struct Held {
    buffer: Buffer,
    moment: u64,
    /// What errors call the tensor.
    tensor: String,
}

impl Saved {
    /// The values of a tensor: as they lie, or by a recipe where that saves much memory.
    pub fn of(tensor: &Tensor, again: Option<&Again>) -> Result<Self> {
        let buffer = tensor.buffer()?;
        let again = Self::again(tensor.device(), &buffer, again);
        Ok(again.unwrap_or_else(|| Self::held(buffer, tensor.described())))
    }

    /// Values in a buffer that no tensor has.
    pub fn own(device: &Device, buffer: &Buffer, again: &Again) -> Self {
        let again = Self::again(device, buffer, Some(again));
        again.unwrap_or_else(|| Self::held(buffer.clone(), "(none)".to_owned()))
    }

    /// Values that stay in memory, of the tensor that errors call so.
    pub fn held(buffer: Buffer, tensor: String) -> Self {
        let moment = last_moment();
        Self::Held(Held {
            buffer,
            moment,
            tensor,
        })
    }

    fn again(device: &Device, buffer: &Buffer, again: Option<&Again>) -> Option<Self> {
        let again = again?;
        // Only there is a buffer's memory free after its last launch, whoever holds it.
        let frees =
            device.plans_memory() && buffer.len() >= KernelTuning::of(device).recompute_from;
        let is_prepared = again.origin.is_some() && takes_sources(device);
        (frees || is_prepared).then(|| Self::Again(again.clone()))
    }

    /// Calls `body` with the values, or with what they are computed from.
    ///
    /// # Errors
    /// As [`Saved::values`], and those of `body`.
    pub fn with_source<R>(&self, body: impl FnOnce(Source<'_>) -> Result<R>) -> Result<R> {
        match self {
            Self::Again(Again {
                origin: Some(origin),
                ..
            }) => origin.with_source(body),
            other => body(Source::Stored(&other.values()?)),
        }
    }

    /// Returns the values.
    ///
    /// # Errors
    /// [`AutogradError::Changed`] if they were changed in place after they were saved, and what the
    /// device reports.
    pub fn values(&self) -> Result<Buffer> {
        match self {
            Self::Held(held) => {
                let all = 0..held.buffer.len();
                if held.buffer.changed_after(held.moment, all) {
                    let (op, tensor) = (watch::operation(), held.tensor.clone());
                    return Err(AutogradError::Changed { op, tensor });
                }
                Ok(held.buffer.clone())
            }
            Self::Again(again) => (again.recipe)(),
        }
    }
}
