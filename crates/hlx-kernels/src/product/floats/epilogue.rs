//! What a product does with its chains on the way to C: the bits of a launch over C, without it.
//!
//! The chain ends first (-0 becomes +0), then one operation of [`crate::elementwise`] or
//! [`crate::activation`] follows, element by element.

use hlx_core::{Binding, Buffer, CpuBindings, Device};

use crate::activation::{
    Activation, activation_backward_in_place, activation_forward, backward_chunk, forward_chunk,
};
use crate::elementwise::{add_assign, add_assign_chunk, scale, scale_chunk};
use crate::map::{CHUNK, chunks1};
use crate::parallel::{for_each, write};
use crate::product::shape::MatMul;
use crate::product::tiles::Form;
use crate::{KernelError, Result, check_len};

/// What happens to each chain before it is stored.
#[derive(Clone, Copy, Debug, Default)]
pub enum Epilogue<'a> {
    /// Nothing: `c = chain`.
    #[default]
    None,
    /// `c = chain + r`, with r shaped as C: a residual connection.
    Add(&'a Buffer),
    /// `c = chain` and `out = f(chain)`: a layer and its activation, with what the derivative
    /// needs.
    Activation {
        /// f.
        kind: Activation,
        /// Overwritten; shaped as C.
        out: &'a Buffer,
    },
    /// `c = chain f'(c)`: in place of an activation's input, which C holds, its gradient from
    /// that of the activation's output, the chain. Not together with `accumulate`.
    ActivationBackward(Activation),
    /// `c = chain * factor`.
    Scale(f32),
}

/// An epilogue without its buffer, as shaders and the CPU body take it along.
#[derive(Clone, Copy)]
pub(super) enum Finish {
    None,
    Add,
    Activation(Activation),
    ActivationBackward(Activation),
    Scale(f32),
}

impl Epilogue<'_> {
    /// Checks the epilogue of a checked product.
    pub(super) fn check(&self, name: &'static str, c: &Buffer, s: &MatMul) -> Result<()> {
        let (argument, buffer) = match *self {
            Self::None => return Ok(()),
            Self::Add(r) => ("r", Some(r)),
            Self::Activation { out, .. } => ("out", Some(out)),
            Self::ActivationBackward(_) | Self::Scale(_) => ("", None),
        };
        check_that!(name, !(s.accumulate && self.reads_c()) =>
            "an activation's input in C and accumulate exclude each other")?;
        check_that!(name, s.batch == 1 || s.stride_c == s.m * s.n =>
            "stride_c is {found}, expected {expected} with an epilogue",
            found = s.stride_c, expected = s.m * s.n)?;
        check_len(name, argument, buffer, c.len())
    }

    /// The form of the shaders that end with this epilogue.
    pub(super) fn form(&self) -> Form {
        match self {
            Self::None => Form::Dense,
            Self::Activation { .. } => Form::Activation,
            Self::Add(_) | Self::ActivationBackward(_) | Self::Scale(_) => Form::Epilogue,
        }
    }

    /// Whether the epilogue itself reads what C held.
    pub(super) fn reads_c(&self) -> bool {
        matches!(self, Self::ActivationBackward(_))
    }

    /// The buffer beside C, as the shader binds it.
    pub(super) fn extra(&self) -> Option<Binding<'_>> {
        match self {
            Self::None | Self::ActivationBackward(_) | Self::Scale(_) => None,
            Self::Add(r) => Some(Binding::Read(r)),
            Self::Activation { out, .. } => Some(Binding::Write(out)),
        }
    }

    pub(super) fn finish(&self) -> Finish {
        match *self {
            Self::None => Finish::None,
            Self::Add(_) => Finish::Add,
            Self::Activation { kind, .. } => Finish::Activation(kind),
            Self::ActivationBackward(kind) => Finish::ActivationBackward(kind),
            Self::Scale(factor) => Finish::Scale(factor),
        }
    }

    /// Runs the product and then the epilogue, each as launches of its own.
    pub(crate) fn separately(
        &self,
        device: &Device,
        c: &Buffer,
        accumulate: bool,
        product: impl Fn(&Buffer) -> Result<()>,
    ) -> Result<()> {
        // No launch reads and writes one buffer through two bindings.
        let chains = || {
            let chains = device.alloc(c.len())?;
            if accumulate {
                device.copy(c, &chains)?;
            }
            product(&chains)?;
            Ok::<Buffer, KernelError>(chains)
        };
        match *self {
            Self::None => product(c),
            Self::Add(r) => {
                product(c)?;
                add_assign(device, c, r)
            }
            Self::Activation { kind, out } => {
                product(c)?;
                activation_forward(device, kind, c, out)
            }
            Self::ActivationBackward(kind) => {
                activation_backward_in_place(device, kind, c, &chains()?)
            }
            Self::Scale(factor) => scale(device, &chains()?, factor, c),
        }
    }
}

impl Finish {
    /// The shader's constants EPILOGUE and KIND.
    pub fn constants(self) -> [(u32, u32); 2] {
        let (ending, kind): (u32, u32) = match self {
            Self::None => (0, 0),
            Self::Add => (1, 0),
            Self::Activation(kind) => (2, kind as u32),
            Self::ActivationBackward(kind) => (3, kind as u32),
            Self::Scale(_) => (4, 0),
        };
        constants!(8: ending, kind)
    }

    /// The factor of a scale.
    pub fn scalar(self) -> f32 {
        match self {
            Self::Scale(factor) => factor,
            _ => 0.0,
        }
    }

    /// The CPU body: the product into C, then a pass over C.
    pub fn run(self, bindings: &mut CpuBindings<'_>, product: impl Fn([&[f32]; 3], &mut [f32])) {
        match self {
            Self::None => {
                let (operands, [c]) = bindings.split();
                product(operands, c);
            }
            Self::Activation(kind) => {
                let (operands, [c, out]) = bindings.split();
                product(operands, c);
                chunks1(c, out, |c, out| forward_chunk(kind, c, out));
            }
            Self::Add => {
                let ([a, b, bias, r], [c]) = bindings.split();
                product([a, b, bias], c);
                chunks1(r, c, add_assign_chunk);
            }
            // The fifth binding, here and below, holds a place for the shader alone.
            Self::ActivationBackward(kind) => {
                let ([a, b, bias, _], [c]) = bindings.split();
                let x = c.to_vec();
                product([a, b, bias], c);
                in_place(c, |first, chains, c| {
                    backward_chunk(kind, &x[first..][..c.len()], chains, c);
                });
            }
            Self::Scale(factor) => {
                let ([a, b, bias, _], [c]) = bindings.split();
                product([a, b, bias], c);
                in_place(c, |_, chains, c| scale_chunk(factor, chains, c));
            }
        }
    }
}

/// Calls `each(first, chains, c)` for blocks of C beside their copies, on all worker threads.
fn in_place(c: &mut [f32], each: impl Fn(usize, &[f32], &mut [f32]) + Sync) {
    const BLOCK: usize = 1024;
    for_each(write(c, CHUNK), |chunk, c| {
        let mut copy = [0.0; BLOCK];
        for (block_idx, c) in c.chunks_mut(BLOCK).enumerate() {
            let chains = &mut copy[..c.len()];
            chains.copy_from_slice(c);
            each(chunk * CHUNK + block_idx * BLOCK, chains, c);
        }
    });
}
