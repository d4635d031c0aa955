//! Which kernels compute an attention: by the arithmetic, the sizes, the device's limits and its tuning. The arithmetic apart,
//! no choice changes a bit.

use hlx_core::Device;

use super::halves;
use super::operands::AttentionOperands;
use super::shaders::{DROPPED_FORWARD, DROPPED_KEY_VALUE, FORWARD, STORED_KEY_VALUE, Variant};
use super::sizes::{Attention, Placed, default_scale};
use crate::product::quantises;
use crate::tuning::KernelTuning;

/// The widest heads that the kernel in one piece computes well: with 128 columns it reached 4 TFLOP/s on an
/// H200, where the products by themselves reach 25.
const NARROW: usize = 64;
/// Shorter sequences leave most of a workgroup's 128 rows empty.
const SHORTEST: usize = 64;
/// Numbers that the backward pass stores of a pair: w, ds, and ds once more with its keys outside.
pub const OF_BACKWARD: usize = 3;
/// Where one key head needs less, one part in this many of the most bytes that may be stored is stored at a time:
/// 1.1 GB of an H200's 4.4, which 87 heads of 1,024 positions take.
const PIECE: usize = 4;

/// The kernels of a forward pass; those of the backward pass follow from them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Schedule {
    /// Over operands of 16 bits.
    Halves,
    /// Over quantised operands.
    Quantised,
    /// Those of plain causal attention over a packed operand, with or without dropped weights.
    Packed,
    /// Those that spread the keys and columns of few queries over workgroups; the backward pass is that of rows.
    Few,
    /// Those of rows of queries.
    Rows,
}

type Takes = fn(&Device, &AttentionOperands<'_>, &Attention) -> bool;

/// What each takes; the first is chosen.
const TABLE: [(Schedule, Takes); 5] = [
    (Schedule::Halves, |device, _, of| halves::takes(device, of)),
    (Schedule::Quantised, |device, _, _| quantises(device)),
    (Schedule::Packed, |device, operands, of| {
        let limits = &operands.limits;
        let by_position = limits.lengths.is_some() || limits.first_positions.is_some();
        let is_limited = limits.documents.is_some() || by_position;
        operands.packed.is_some() && !is_limited && packed_kernels(device, of).is_some()
    }),
    // Where documents begin, blocks of keys differ from query to query.
    (Schedule::Few, |device, operands, of| {
        is_of_few_queries(device, of) && operands.limits.documents.is_none()
    }),
    (Schedule::Rows, |_, _, _| true),
];

impl Schedule {
    /// The first that takes the operands.
    pub fn of(device: &Device, operands: &AttentionOperands<'_>, of: &Attention) -> Self {
        let mut all = TABLE.iter();
        let first = all.find(|(_, takes)| takes(device, operands, of));
        first.map_or(Self::Rows, |(schedule, _)| *schedule)
    }
}

/// The kernels of packed causal attention.
pub struct PackedKernels {
    pub forward: &'static Variant,
    /// For dK and dV.
    pub key_value: &'static Variant,
    /// Of how many heads at a time ds is stored.
    pub heads_at_a_time: usize,
}

/// The kernels of packed causal attention, where a device has them for these sizes: GPUs, for heads of at most 64
/// columns. On an H100 the kernels of rows were 2.0 to 7.1 times as fast as packed ones of 80 and 128 columns, which were
/// given up.
pub fn packed_kernels(device: &Device, of: &Attention) -> Option<PackedKernels> {
    let has_plain_scores =
        of.window.is_none() && of.soft_cap.is_none() && of.scale == default_scale(of.head_width);
    let is_square = of.queries == of.keys && of.heads == of.key_heads;
    let (forward, key_value) = match of.dropout {
        None => (
            choose(device, of, &FORWARD),
            choose(device, of, &STORED_KEY_VALUE),
        ),
        Some(_) => (&DROPPED_FORWARD, &DROPPED_KEY_VALUE),
    };
    let takes =
        of.causal && has_plain_scores && is_square && !device.is_cpu() && forward.fits(device, of);
    let heads_at_a_time = takes
        .then(|| heads_at_a_time(device, of, key_value))
        .flatten()?;
    Some(PackedKernels {
        forward,
        key_value,
        heads_at_a_time,
    })
}

/// Whether the kernels of few queries compute it, and faster than those of rows, if there are no documents.
pub fn is_of_few_queries(device: &Device, of: &Attention) -> bool {
    of.queries <= KernelTuning::of(device).attention.few_queries_up_to && of.dropout.is_none()
}

/// Words that a pass may store.
fn stored_words(device: &Device) -> usize {
    let bytes = KernelTuning::of(device).attention.stored_bytes;
    usize::try_from(bytes / 4).unwrap_or(usize::MAX)
}

impl Variant {
    /// Whether a device carries out this variant.
    pub fn fits(&self, device: &Device, attention: &Attention) -> bool {
        attention.head_width <= self.width
            && (device.is_cpu() || self.shared_bytes <= device.info().shared_memory_bytes)
    }
}

/// Picks the first variant that fits and has enough workgroups, or the last.
fn choose<const N: usize>(
    device: &Device,
    attention: &Attention,
    variants: &'static [Variant; N],
) -> &'static Variant {
    let full = KernelTuning::of(device).attention.full_groups;
    let groups = |variant: &Variant| variant.groups(attention, attention.all_heads());
    let enough = |variant: &Variant| !variant.fills || groups(variant) >= full;
    variants
        .iter()
        .find(|variant| variant.fits(device, attention) && enough(variant))
        .unwrap_or(&variants[N - 1])
}

/// Words of one head's ds in packed attention: blocks of 32 queries and 32 keys at or below the diagonal.
pub fn words_of_head(attention: &Attention) -> usize {
    let blocks = attention.queries.div_ceil(32);
    blocks * (blocks + 1) / 2 * 1024
}

/// Of how many heads at a time a kernel for dK and dV of packed attention keeps ds; none on the CPU, where the device
/// lacks shared memory, or where one head's ds is too large.
fn heads_at_a_time(device: &Device, attention: &Attention, variant: &Variant) -> Option<usize> {
    if device.is_cpu() || !variant.fits(device, attention) || attention.batch == 0 {
        return None;
    }
    let words = stored_words(device);
    let most = words.min(device.max_binding_words()) / words_of_head(attention);
    let rounds = attention.all_heads().div_ceil(most.max(1));
    (most > 0).then(|| attention.all_heads().div_ceil(rounds))
}

/// Of how many key heads at a time `numbers` of each pair are stored; none on the CPU, for operands that are not whole
/// vectors of four, for short sequences, and where those of one key head are too many.
pub fn key_heads_at_a_time(device: &Device, placed: &Placed, numbers: usize) -> Option<usize> {
    let Attention { queries, keys, .. } = placed.attention;
    let lengths = [queries, keys].iter().all(|n| n.is_multiple_of(4));
    let vectors = lengths && placed.is_of_vectors();
    if device.is_cpu() || !vectors || queries.min(keys) < SHORTEST || placed.attention.batch == 0 {
        return None;
    }
    let group = placed.attention.group();
    let of_one = group.checked_mul(queries)?.checked_mul(keys)?;
    let words = stored_words(device);
    let most = |words: usize| (words / numbers).min(device.max_binding_words()) / of_one;
    if most(words) == 0 {
        return None;
    }
    let all = placed.attention.all_key_heads();
    let rounds = all.div_ceil(most(words / PIECE).max(1));
    Some(all.div_ceil(rounds))
}

/// Of how many key heads at a time the scores are stored; none where the kernel in one piece computes them.
pub fn key_heads_of_forward(device: &Device, placed: &Placed) -> Option<usize> {
    let is_wide = placed.attention.head_width > NARROW;
    let heads = key_heads_at_a_time(device, placed, 1);
    heads.filter(|_| is_wide)
}
