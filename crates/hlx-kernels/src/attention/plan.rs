//! Which kernels compute an attention: by the arithmetic, the sizes, the device's limits and its tuning. The arithmetic apart,
//! no choice changes a bit.

use hlx_core::Device;

use super::dropped::DroppedWeights;
use super::entry::AttentionOperands;
use super::ranged::{Limits, Placed, RangedAttention, Strided};
use super::shaders::{DROPPED_FORWARD, DROPPED_KEY_VALUE, Variant};
use super::{AttentionShape, default_scale};
use crate::product::quantises;
use crate::tuning::KernelTuning;

/// The widest head of the kernels of packed causal attention.
const WIDEST_PACKED: usize = 128;
/// The widest heads that the kernel in one piece computes well: with 128 columns it reached 4 TFLOP/s on an
/// H200, where the products by themselves reach 25.
const NARROW: usize = 64;
/// Shorter sequences leave most of a workgroup's 128 rows empty.
const SHORTEST: usize = 64;
/// Numbers that the backward pass stores of a pair: w, ds, and ds once more with its keys outside.
pub const OF_BACKWARD: usize = 3;
/// Of the most bytes that may be stored, the part that is stored at a time where one key head needs less:
/// 1.1 GB of an H200's 4.4, which 87 heads of 1,024 positions take.
const PIECE: usize = 4;

/// The kernels of a forward pass; those of the backward pass follow from them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Plan {
    /// Those of plain causal attention over a packed operand, with or without dropped weights.
    Packed(AttentionShape),
    /// Over integers.
    Integers,
    /// Those that spread the keys and columns of few queries over workgroups; the backward pass is that of rows.
    Few,
    /// Those of rows of queries.
    Rows,
}

impl Plan {
    /// The first that takes the operands.
    pub fn of(
        device: &Device,
        operands: &AttentionOperands<'_>,
        attention: &RangedAttention,
    ) -> Self {
        if quantises(device) {
            return Self::Integers;
        }
        if let Some(shape) = packed_shape(device, operands, attention) {
            return Self::Packed(shape);
        }
        // Where documents begin, blocks of keys differ from query to query.
        match attention.is_of_few_queries(device) && operands.limits.documents.is_none() {
            true => Self::Few,
            false => Self::Rows,
        }
    }
}

/// The sizes, if the kernels of plain causal attention take the operands.
fn packed_shape(
    device: &Device,
    operands: &AttentionOperands<'_>,
    attention: &RangedAttention,
) -> Option<AttentionShape> {
    let shape = AttentionShape {
        batch: attention.batch,
        time: attention.queries,
        heads: attention.heads,
        head_width: attention.head_width,
    };
    let has_no_limits = matches!(
        operands.limits,
        Limits {
            documents: None,
            lengths: None,
            first_positions: None,
        }
    );
    let of_scores = attention.window.is_none()
        && attention.soft_cap.is_none()
        && attention.scale == default_scale(shape.head_width);
    let is_plain = attention.causal && of_scores && has_no_limits;
    let fits = match attention.dropout {
        None => shape.head_width <= WIDEST_PACKED,
        Some(_) => DroppedWeights::fits(device, &shape),
    };
    (operands.packed.is_some() && is_plain && fits).then_some(shape)
}

/// Words that a pass may store.
fn stored_words(device: &Device) -> usize {
    let bytes = KernelTuning::of(device).attention.stored_bytes;
    usize::try_from(bytes / 4).unwrap_or(usize::MAX)
}

impl Variant {
    /// Whether this variant can carry out `shape` on `device`.
    pub fn fits(&self, device: &Device, shape: &AttentionShape) -> bool {
        shape.head_width <= self.width
            && (device.is_cpu() || self.shared_bytes <= device.info().shared_memory_bytes)
    }
}

/// Picks the first variant that fits and has enough workgroups, or the last.
pub fn choose<const N: usize>(
    device: &Device,
    shape: &AttentionShape,
    variants: &'static [Variant; N],
) -> &'static Variant {
    let full = KernelTuning::of(device).attention.full_groups;
    let enough =
        |variant: &Variant| !variant.fills || variant.groups(shape, shape.all_heads()) >= full;
    variants
        .iter()
        .find(|variant| variant.fits(device, shape) && enough(variant))
        .unwrap_or(&variants[N - 1])
}

/// Of how many heads at a time a kernel for dK and dV keeps ds; none on the CPU, where the device lacks
/// shared memory, or where one head's ds is too large.
pub fn heads_at_a_time(
    device: &Device,
    shape: &AttentionShape,
    variant: &Variant,
) -> Option<usize> {
    if device.is_cpu() || !variant.fits(device, shape) || shape.batch == 0 {
        return None;
    }
    let words = stored_words(device);
    let most = words.min(device.max_binding_words()) / shape.stored_words();
    let rounds = shape.all_heads().div_ceil(most.max(1));
    (most > 0).then(|| shape.all_heads().div_ceil(rounds))
}

impl DroppedWeights<'_> {
    /// Whether these kernels take a shape on a device.
    pub fn fits(device: &Device, shape: &AttentionShape) -> bool {
        let forward = !device.is_cpu() && DROPPED_FORWARD.fits(device, shape);
        forward && heads_at_a_time(device, shape, &DROPPED_KEY_VALUE).is_some()
    }
}

impl RangedAttention {
    /// Whether [`few_queries_attention_forward`](super::ranged::few_queries_attention_forward) computes it, and faster than
    /// [`ranged_attention_forward`](super::ranged::ranged_attention_forward), if there are no documents.
    pub fn is_of_few_queries(&self, device: &Device) -> bool {
        self.queries <= KernelTuning::of(device).attention.few_queries_up_to
            && self.dropout.is_none()
    }
}

/// Of how many key heads at a time `numbers` of each pair are stored; none on the CPU, for operands that are not whole
/// vectors of four, for short sequences, and where those of one key head are too many.
pub fn key_heads_at_a_time(device: &Device, placed: &Placed, numbers: usize) -> Option<usize> {
    let Placed { attention, places } = placed;
    let RangedAttention { queries, keys, .. } = *attention;
    let extents = [queries, keys, attention.head_width];
    let vectors = extents.iter().all(|extent| extent.is_multiple_of(4))
        && places.iter().all(Strided::is_of_vectors);
    if device.is_cpu() || !vectors || queries.min(keys) < SHORTEST || attention.batch == 0 {
        return None;
    }
    let of_one = attention.group().checked_mul(queries)?.checked_mul(keys)?;
    let words = stored_words(device);
    let most = |words: usize| (words / numbers).min(device.max_binding_words()) / of_one;
    if most(words) == 0 {
        return None;
    }
    let all = attention.batch * attention.key_heads;
    let rounds = all.div_ceil(most(words / PIECE).max(1));
    Some(all.div_ceil(rounds))
}

/// Of how many key heads at a time the scores are stored; none where the kernel in one piece computes them.
pub fn key_heads_of_forward(device: &Device, placed: &Placed) -> Option<usize> {
    let is_wide = placed.attention.head_width > NARROW;
    let heads = key_heads_at_a_time(device, placed, 1);
    heads.filter(|_| is_wide)
}
