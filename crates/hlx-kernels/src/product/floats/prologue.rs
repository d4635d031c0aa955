//! What a product's left operand goes through on its way in: the bits of a launch before the product,
//! without it where a shader of few rows computes both.

use hlx_core::{Buffer, Device};

use super::NAME;
use crate::Result;
use crate::activation::{Activation, activation_forward, forward_chunk};
use crate::elementwise::mul;
use crate::error::check_len;
use crate::norm::{Gain, Norm, NormForward, forward_rows, norm_forward};
use crate::product::shape::MatMul;

/// What a row of A goes through before the product.
#[derive(Clone, Copy, Debug)]
pub enum Prologue<'a> {
    /// The RMS norm over K ([`norm`](crate::norm)) with a gain, `[K]`.
    RmsNorm {
        /// The gain.
        gain: &'a Buffer,
        /// What is added under the root.
        eps: f32,
    },
    /// `silu(a) up`, element by element: the inside of a SwiGLU network.
    Gated {
        /// Shaped as A.
        up: &'a Buffer,
    },
}

impl<'a> Prologue<'a> {
    /// The buffer that it reads beside A.
    pub(in crate::product) fn operand(&self) -> &'a Buffer {
        match self {
            Self::RmsNorm { gain, .. } => gain,
            Self::Gated { up } => up,
        }
    }

    /// How the CPU computes the rows of A as the product reads them, from A and what the prologue reads beside it.
    pub(super) fn on_the_cpu(
        &self,
        k: usize,
    ) -> impl Fn(&[f32], &[f32]) -> Vec<f32> + Send + Sync + use<> {
        let eps = match self {
            Self::RmsNorm { eps, .. } => Some(*eps),
            Self::Gated { .. } => None,
        };
        move |a, extra| {
            let mut prepared = vec![0.0; a.len()];
            if let Some(eps) = eps {
                let mut stats = vec![0.0; a.len() / k];
                let gain = Gain {
                    weight: extra,
                    bias: None,
                };
                forward_rows(a, gain, eps, &mut prepared, &mut stats);
            } else {
                forward_chunk(Activation::SiLU, a, &mut prepared);
                multiply(&mut prepared, extra);
            }
            prepared
        }
    }

    pub(in crate::product) fn check(&self, shape: &MatMul) -> Result<()> {
        check_that!(NAME, shape.batch == 1 && !shape.trans_a =>
            "{shape:?} has a prologue, expected one product of a plain A")?;
        match self {
            Self::RmsNorm { gain, .. } => check_len(NAME, "gain", *gain, shape.k),
            Self::Gated { up } => check_len(NAME, "up", *up, [shape.m, shape.k]),
        }
    }

    /// A after launches of its own.
    pub(in crate::product) fn separately(
        &self,
        device: &Device,
        a: &Buffer,
        s: &MatMul,
    ) -> Result<Buffer> {
        let prepared = device.alloc(a.len())?;
        match self {
            Self::RmsNorm { gain, eps } => {
                let stats = device.alloc(s.m)?;
                let buffers = NormForward {
                    x: a,
                    weight: gain,
                    bias: None,
                    y: &prepared,
                    stats: &stats,
                };
                norm_forward(device, &Norm::rms(s.m, s.k, *eps), &buffers)?;
            }
            Self::Gated { up } => {
                let activated = device.alloc(a.len())?;
                activation_forward(device, Activation::SiLU, a, &activated)?;
                mul(device, &activated, up, &prepared)?;
            }
        }
        Ok(prepared)
    }
}

multiversion! {
    fn multiply<A>(x: &mut [f32], factors: &[f32]) {
        for (x, &factor) in x.iter_mut().zip(factors) {
            *x = A::mul(*x, factor);
        }
    }
}
