//! What an operation keeps of an input for its backward pass: the values, or how to compute them
//! again.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use hlx_core::{Arithmetic, Buffer, Device, last_moment};
use hlx_kernels::KernelError;
use hlx_kernels::KernelTuning;
use hlx_kernels::activation::{Activation, activation_forward};
use hlx_kernels::product::quantised::{PIECE, Prepared, Source};

use crate::graph::backward::watch;
use crate::{AutogradError, Result, Tensor};

/// Computes values again, with the launches that computed them first, and so to the same bits.
pub(crate) type Recipe = Arc<dyn Fn() -> Result<Buffer> + Send + Sync>;

/// How to compute values again.
#[derive(Clone)]
pub(crate) struct Again {
    pub recipe: Recipe,
    /// From what kernels compute them on their way to integers, where results are prepared so ([`prepares_results`]).
    pub origin: Option<Origin>,
}

impl Again {
    /// Those of an activation's result.
    pub fn of_activation(device: &Device, kind: Activation, x: Saved) -> Self {
        let origin = prepares_results(device).then(|| Origin::Activation {
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
        stats: Statistics,
        weight: Box<Saved>,
        bias: Box<Saved>,
    },
    RmsNorm {
        x: Box<Saved>,
        stats: Statistics,
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
            } => body(Source::LayerNorm {
                x: &x.values()?,
                stats: stats.buffer(),
                weight: &weight.values()?,
                bias: &bias.values()?,
            }),
            Self::RmsNorm { x, stats, weight } => body(Source::RmsNorm {
                x: &x.values()?,
                stats: stats.buffer(),
                weight: &weight.values()?,
            }),
        }
    }
}

/// The statistics of a norm, which the launch that makes floats writes, and also the one that makes integers if there is one.
#[derive(Clone)]
pub(crate) struct Statistics {
    of_floats: Buffer,
    of_integers: Option<(Buffer, Taken)>,
}

impl Statistics {
    /// Allocates those of a norm of rows, so many values a row.
    pub fn new(device: &Device, [rows, columns]: [usize; 2], of_row: usize) -> Result<Self> {
        let fits = rows > 0 && (1..=PIECE).contains(&columns);
        let len = rows * of_row;
        let of_integers = match fits && prepares_results(device) {
            true => Some((device.alloc(len)?, Taken::default())),
            false => None,
        };
        Ok(Self {
            of_floats: device.alloc(len)?,
            of_integers,
        })
    }

    /// Whether there is a launch that makes integers.
    pub fn has_integers(&self) -> bool {
        self.of_integers.is_some()
    }

    /// What the launch that makes floats writes.
    pub fn of_floats(&self) -> &Buffer {
        &self.of_floats
    }

    /// Launches what makes integers, if there is such a launch.
    pub fn prepare(
        &self,
        launch: impl FnOnce(&Buffer) -> Result<Prepared, KernelError>,
    ) -> Result<Option<(Prepared, Taken)>> {
        let Some((buffer, taken)) = &self.of_integers else {
            return Ok(None);
        };
        Ok(Some((launch(buffer)?, Arc::clone(taken))))
    }

    /// Those of the launch whose result is read, so that a graph can leave out the other.
    pub fn buffer(&self) -> &Buffer {
        match &self.of_integers {
            Some((buffer, taken)) if taken.load(Ordering::Relaxed) => buffer,
            _ => &self.of_floats,
        }
    }
}

/// Whether integers that a tensor keeps were taken.
pub(crate) type Taken = Arc<AtomicBool>;

/// Values for a backward pass.
#[derive(Clone)]
pub(crate) enum Saved {
    Kept(Kept),
    Again(Again),
}

/// Values that stay in memory, and since when nobody may have changed them.
#[derive(Clone)]
pub(crate) struct Kept {
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
        Ok(again.unwrap_or_else(|| Self::kept(buffer, tensor.described())))
    }

    /// Values in a buffer that no tensor has.
    pub fn own(device: &Device, buffer: &Buffer, again: &Again) -> Self {
        let again = Self::again(device, buffer, Some(again));
        again.unwrap_or_else(|| Self::kept(buffer.clone(), "(none)".to_owned()))
    }

    /// Values that stay in memory, of the tensor that errors call so.
    pub fn kept(buffer: Buffer, tensor: String) -> Self {
        let moment = last_moment();
        Self::Kept(Kept {
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
        let is_prepared = again.origin.is_some() && prepares_results(device);
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
            Self::Kept(kept) => {
                let all = 0..kept.buffer.len();
                if kept.buffer.changed_after(kept.moment, all) {
                    let (op, tensor) = (watch::operation(), kept.tensor.clone());
                    return Err(AutogradError::Changed { op, tensor });
                }
                Ok(kept.buffer.clone())
            }
            Self::Again(again) => (again.recipe)(),
        }
    }
}

/// Whether results become integers where they are computed: in graphs of a Vulkan device, which leave out launches whose floats
/// nobody reads then.
pub(crate) fn prepares_results(device: &Device) -> bool {
    let integer = device.arithmetic() == Arithmetic::Integer;
    integer && device.plans_memory() && device.tuning().skips_unread
}
