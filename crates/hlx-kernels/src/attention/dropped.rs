//! Packed causal attention whose weights are dropped, on GPUs, for heads of at most 64 columns: the
//! kernels of plain causal attention with the draws, and so the bits, of [`ranged`](super::ranged)
//! attention with dropout. dQ comes from the stored ds, in which they are dropped already.

use hlx_core::{Buffer, Device};

use super::plan::heads_at_a_time;
use super::ranged::WeightDropout;
use super::shaders::{
    DROPPED_FORWARD, DROPPED_KEY_VALUE, backward_key_value_cached_dropped, forward_64_dropped,
};
use super::{AttentionShape, backward_stored, check_backward, check_forward};
use crate::KernelError;
use crate::error::{check_len, check_that};
use crate::kernel::{Kernel, PushConstants};

/// Dropped weights, and where their draws are counted.
#[derive(Clone, Copy, Debug)]
pub struct DroppedWeights<'a> {
    /// The probability, the seed and the place in the model.
    pub dropout: WeightDropout,
    /// `[step, first sample]`, as in [`dropout`](crate::dropout::dropout).
    pub counter: &'a Buffer,
}

impl DroppedWeights<'_> {
    /// The push constants of dK and dV, from those without dropout.
    pub(super) fn push(
        &self,
        shape: &AttentionShape,
        heads: usize,
        first_head: usize,
    ) -> PushConstants {
        let WeightDropout { p, seed, purpose } = self.dropout;
        push!(backward_key_value_cached_dropped =>
            heads, heads_a_sequence: shape.heads, time: shape.time, scale: shape.scale(), first_head,
            seed_low: seed as u32, seed_high: (seed >> 32) as u32, purpose, p,
            factor: self.dropout.factor()
        )
    }

    fn check(
        &self,
        name: &'static str,
        device: &Device,
        shape: &AttentionShape,
    ) -> Result<(), KernelError> {
        check_that(name, Self::fits(device, shape), || {
            format!("no kernel of this device takes {shape:?}, expected ranged attention")
        })?;
        check_len(name, "counter", self.counter, 2)
    }
}

/// As [`attention_forward`](super::attention_forward), with weights dropped.
///
/// # Errors
/// As there, and for a shape that does not [fit](DroppedWeights::fits).
pub fn dropped_attention_forward(
    device: &Device,
    qkv: &Buffer,
    o: &Buffer,
    stats: &Buffer,
    shape: &AttentionShape,
    dropped: &DroppedWeights<'_>,
) -> Result<(), KernelError> {
    let name = "dropped_attention_forward";
    check_forward(name, [qkv, o, stats], shape)?;
    dropped.check(name, device, shape)?;
    let WeightDropout { p, seed, purpose } = dropped.dropout;
    let heads = shape.all_heads();
    let push = push!(forward_64_dropped =>
        heads, heads_a_sequence: shape.heads, time: shape.time, scale: shape.scale(),
        seed_low: seed as u32, seed_high: (seed >> 32) as u32, purpose, p,
        factor: dropped.dropout.factor()
    );
    Kernel::new("attention_forward", DROPPED_FORWARD.shader)
        .constants(&shape.constants())
        .reads([qkv])
        .writes([o, stats])
        .reads([dropped.counter])
        .flops(shape.flops(heads, 2))
        .launch_on_gpu(device, push, DROPPED_FORWARD.groups(shape, heads))
}

/// As [`attention_backward`](super::attention_backward), with weights dropped.
///
/// # Errors
/// As [`dropped_attention_forward`].
#[allow(clippy::too_many_arguments)] // As the kernels without dropout.
pub fn dropped_attention_backward(
    device: &Device,
    qkv: &Buffer,
    o: &Buffer,
    stats: &Buffer,
    d_o: &Buffer,
    delta: &Buffer,
    dqkv: &Buffer,
    shape: &AttentionShape,
    dropped: &DroppedWeights<'_>,
) -> Result<(), KernelError> {
    let name = "dropped_attention_backward";
    check_backward(name, [qkv, o, stats, d_o, delta, dqkv], shape)?;
    dropped.check(name, device, shape)?;
    let Some(heads) = heads_at_a_time(device, shape, &DROPPED_KEY_VALUE) else {
        return Ok(());
    };
    let inputs = [qkv, o, stats, d_o];
    let kernel = (&DROPPED_KEY_VALUE, heads, Some(dropped));
    backward_stored(device, inputs, delta, dqkv, *shape, kernel)
}
