//! What an operation saves of an input for its backward pass: the values, or how to compute them
//! again.

use std::sync::Arc;

use hlx_core::{Buffer, DType, Device, SavedFormat, last_moment};
use hlx_kernels::activation::{Activation, activation_forward};
use hlx_kernels::elementwise::copy_strided;
use hlx_kernels::product::{Source, takes_sources};
use hlx_kernels::{KernelTuning, Layout, Operand};

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
    /// The same of values that no saving has rounded, for the forward pass.
    pub source: Option<Origin>,
}

impl Again {
    /// Those of an activation's result, for a backward pass.
    pub fn of_activation(device: &Device, kind: Activation, x: Saved) -> Self {
        let origin = takes_origins(device).then(|| Origin::Activation {
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
        Self {
            recipe,
            origin,
            source: None,
        }
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

/// Whether it is noted what values are computed from: where operands are made of it, and where what is saved is rounded,
/// so that every device computes from the same rounded values.
pub(crate) fn takes_origins(device: &Device) -> bool {
    takes_sources(device) || rounds(device)
}

/// Whether activations are saved in 16 bits.
pub(crate) fn rounds(device: &Device) -> bool {
    device.saved_format() == SavedFormat::Bf16
}

/// Values for a backward pass.
#[derive(Clone)]
pub(crate) enum Saved {
    Held(Held),
    Rounded(Rounded),
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

/// Values in a memory of their own, rounded to bf16, which are widened wherever they are read.
#[derive(Clone)]
pub(crate) struct Rounded {
    device: Device,
    bits: Buffer,
}

/// What a buffer's memory remembers: its values in 16 bits, and whether a graph computes them.
#[derive(Clone)]
struct Bits {
    bits: Buffer,
    of_recording: bool,
}

impl Rounded {
    /// Rounds f32 values, to nearest, ties to even; those that are rounded already are not rounded again.
    fn new(device: &Device, values: &Buffer) -> Result<Self> {
        let of_recording = device.is_recording();
        let fits = |one: &Bits| one.of_recording == of_recording;
        let bits = match values.recall(fits) {
            Some(Bits { bits, .. }) => bits,
            None => {
                let bits = converted(device, values, DType::BF16)?;
                let made = Bits {
                    bits: bits.clone(),
                    of_recording,
                };
                device.remember(values, made, |_| true);
                bits
            }
        };
        let device = device.clone();
        Ok(Self { device, bits })
    }

    fn values(&self) -> Result<Buffer> {
        converted(&self.device, &self.bits, DType::F32)
    }
}

/// f32 values rounded to bf16, as they are saved: in the memory that remembers them, or in a new one.
pub(crate) fn rounded_bits(device: &Device, values: &Buffer) -> Result<Buffer> {
    Ok(Rounded::new(device, values)?.bits)
}

fn converted(device: &Device, values: &Buffer, dtype: DType) -> Result<Buffer> {
    let out = device.alloc_typed(dtype, values.len())?;
    let layout = Layout::contiguous(&[values.len()])?;
    copy_strided(device, Operand::new(values, &layout), &out)?;
    Ok(out)
}

impl Saved {
    /// The values of a tensor: rounded where activations are ([`Saved::activation`]), as they lie, or by a recipe where that
    /// saves much memory.
    pub fn of(tensor: &Tensor, again: Option<&Again>) -> Result<Self> {
        let buffer = tensor.buffer()?;
        match Self::again(tensor.device(), &buffer, again) {
            Some(again) => Ok(again),
            None => tensor.save_activation(&buffer),
        }
    }

    /// Values that an operation of the tape has computed, of the tensor that errors call so: in 16 bits where the device
    /// saves them so.
    pub fn activation(
        device: &Device,
        values: &Buffer,
        tensor: impl FnOnce() -> String,
    ) -> Result<Self> {
        match rounds(device) && values.dtype() == DType::F32 && !values.is_empty() {
            true => Ok(Self::Rounded(Rounded::new(device, values)?)),
            false => Ok(Self::held(values.clone(), tensor())),
        }
    }

    /// Whether reading them gives rounded values.
    pub fn is_rounded(&self) -> bool {
        matches!(self, Self::Rounded(_))
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
        let saved = Again {
            source: None,
            ..again.clone()
        };
        (frees || is_prepared || rounds(device)).then(|| Self::Again(saved))
    }

    /// Calls `body` with the values, or with what they are computed from.
    ///
    /// # Errors
    /// As [`Saved::values`], and those of `body`.
    pub fn with_source<R>(
        &self,
        device: &Device,
        body: impl FnOnce(Source<'_>) -> Result<R>,
    ) -> Result<R> {
        match self {
            Self::Again(Again {
                origin: Some(origin),
                ..
            }) if takes_sources(device) => origin.with_source(body),
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
            Self::Rounded(rounded) => rounded.values(),
            Self::Again(again) => (again.recipe)(),
        }
    }
}
