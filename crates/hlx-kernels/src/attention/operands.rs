//! What the passes of an attention read.

use hlx_core::{Buffer, Device};

use super::ranges::{Limits, query_ranges};
use super::sizes::Attention;
use crate::{KernelError, Operand, Result};

/// What both passes of an attention read.
#[derive(Clone, Copy, Debug)]
pub struct AttentionOperands<'a> {
    /// q, `[B, T, H, D]`, k and v, `[B, S, G, D]`; their last dimension is dense.
    pub heads: [Operand<'a>; 3],
    /// The memory of all three, if they lie in it as [`layouts_of_packed`](super::layouts_of_packed) says.
    pub packed: Option<&'a Buffer>,
    /// What limits the keys that a query sees.
    pub limits: Limits<'a>,
    /// Where weights are dropped two words, `[step, first sample]`, as in
    /// [`dropout`](crate::dropout::dropout).
    pub counter: Option<&'a Buffer>,
}

impl<'a> AttentionOperands<'a> {
    /// What queries see.
    pub(super) fn ranges(&self, device: &Device, attention: &Attention) -> Result<Buffer> {
        attention.check("attention")?;
        let ranges = device.alloc_shape(&[4, attention.batch, attention.queries])?;
        query_ranges(device, &self.limits, &ranges, attention)?;
        Ok(ranges)
    }

    pub(super) fn packed(&self) -> Result<&'a Buffer> {
        let reason = "q, k and v lie apart, expected those that were prepared, packed";
        self.packed
            .ok_or_else(|| KernelError::argument("attention")(reason.to_owned()))
    }
}

/// What a backward pass reads besides the operands.
#[derive(Clone, Copy, Debug)]
pub struct AttentionOutput<'a> {
    /// The forward's output.
    pub o: &'a Buffer,
    /// The forward's statistics.
    pub stats: &'a Buffer,
    /// The gradient of `o`.
    pub d_o: &'a Buffer,
}

/// What a backward pass writes.
#[derive(Clone, Copy, Debug)]
pub struct AttentionGradients<'a> {
    /// Scratch, `[B, H, T]`.
    pub delta: &'a Buffer,
    /// The gradients of q, k and v; no two share an element. Packed kernels write one buffer, those of floats else
    /// contiguous ones, those of quantised operands layouts of one buffer.
    pub heads: [Operand<'a>; 3],
}
