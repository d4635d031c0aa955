//! Attention where each query sees a range of keys: causal or not, windows, documents packed in a row,
//! padding, caches, grouped heads; strided operands.
//!
//! [`query_ranges`] and [`key_ranges`] compute which keys a query sees ([`Limits`] has the rule); what
//! it does not see is skipped, never computed and masked. For query `i` of head `h`, with the keys and
//! values of head `h / (H / G)`, `G` the number of key heads, and the keys `j` that `i` sees, in blocks
//! of 32 that count from the first key of the query's document:
//! `s_j = (sum_d q[i, d] k[j, d]) * scale`, with a cap `s_j = cap * tanh(s_j * (1 / cap))`. A block of
//! which the query sees a key updates with `m' = max(m, max_j s_j)`, `c = exp(m - m')`,
//! `p_j = exp(s_j - m')`: `l = l c`, then `l = l + p_j` in order; `o = o c`, then
//! `o = fma(w_j, v[j], o)` in order, `w_j = p_j`, or, where weights are dropped,
//! `p_j * (1 / (1 - p))` or 0. At the end `o = o / l`, and `stats` keeps `(m, 1 / l)`. A query that sees
//! nothing has zeros in all three.
//!
//! Backward: `delta_i = sum_d do[i, d] o[i, d]`, `p_ij = exp(s_ij - m_i) * (1 / l_i)`,
//! `dp_ij = sum_d do[i, d] v[j, d]`, times `1 / (1 - p)` or replaced by 0 where weights are dropped;
//! `ds_ij = p_ij (dp_ij - delta_i)`, with a cap `(p_ij fma(-t, t, 1)) (dp_ij - delta_i)` of
//! `t = tanh(s / cap)`; `dq_i = (sum_j ds_ij k_j) * scale`; `dk_j = (sum ds_ij q_i) * scale` and
//! `dv_j = sum w_ij do_i` are one chain each over the query heads of the key head in order, and
//! in each over the queries that see `j` in order.
//!
//! GPUs that have the memory store `w_ij` and `ds_ij` of some heads at a time (`ranged/stored.rs`): five products of
//! queries and keys instead of seven. Elsewhere dQ's kernel and that of dK and dV compute them, each for
//! itself. The forward of wide heads stores `s_ij` and then `w_ij` (`ranged/stored_forward.rs`).
//!
//! Every sum is one fma chain in increasing order of its index, from +0, and ends with -0 turned
//! into +0. So a query's result depends on the keys of its own document alone: packed in a row, padded,
//! batched, or computed from a cache, it has the bits that it has by itself.
//!
//! Dropped weights: with `(a, b, ..) = Philox(counter = (0, first sample + b, step, purpose), seed)`, the
//! draw of a weight is component `n % 4` of `Philox(counter = (n / 4, position, h, 0), key = (a, b))`,
//! `n` the key's place in its document and `position` the query's in its row. It stays if its uniform
//! number is at least p, as in [`dropout`](crate::dropout).
//!
//! Shapes: `q` `[B, T, H, D]`, `k`, `v` `[B, S, G, D]`; `o`, `d_o`, `dq` `[B, T, H, D]`, `dk`, `dv`
//! `[B, S, G, D]`, contiguous; `stats` `[B, H, T, 2]`; `delta` `[B, H, T]`; `D` from 1 to 256.
//! PyTorch: `torch.nn.functional.scaled_dot_product_attention(..., enable_gqa=True)`.

use hlx_core::arith::philox4x32;
use hlx_core::{Buffer, Device, as_u32};

use super::plan::{OF_BACKWARD, key_heads_at_a_time, key_heads_of_forward};
use super::shaders::{DELTA, backward_delta};
use crate::error::check_len;
use crate::kernel::{Kernel, PushConstants};
use crate::{KernelError, Operand};

mod cpu;
mod few_queries;
mod integer;
mod ranges;
mod shaders;
mod sizes;
mod stored;
mod stored_forward;
#[cfg(test)]
mod tests;

pub use few_queries::few_queries_attention_forward;
pub(in crate::attention) use integer::Heads;
pub use integer::{
    IntegerHeads, integer_attention_backward, integer_attention_forward, integer_attention_of_cache,
};
pub(super) use integer::{IntegerOperands, JointGradients};
pub use ranges::{Limits, key_ranges, query_ranges};
use shaders::{Push, Variants};
pub(super) use sizes::{Placed, Strided};
pub use sizes::{RangedAttention, WIDEST_HEAD, WeightDropout};

/// What both passes read.
#[derive(Clone, Copy, Debug)]
pub struct AttentionInputs<'a> {
    /// `[B, T, H, D]`; the last dimension is dense, as in `k` and `v`.
    pub q: Operand<'a>,
    /// `[B, S, G, D]`.
    pub k: Operand<'a>,
    /// `[B, S, G, D]`.
    pub v: Operand<'a>,
    /// What [`query_ranges`] wrote: `[B, T, 4]`.
    pub query_ranges: &'a Buffer,
    /// Where weights are dropped two words, `[step, first sample]`, as in
    /// [`dropout`](crate::dropout::dropout).
    pub counter: Option<&'a Buffer>,
}

/// Computes `o` and the statistics that the backward needs; overwrites both.
///
/// `o`: `[B, T, H, D]`; `stats`: `[B, H, T, 2]`.
///
/// # Errors
/// If a buffer or operand has another shape, a size is out of range, or the launch fails.
pub fn ranged_attention_forward(
    device: &Device,
    inputs: &AttentionInputs<'_>,
    o: &Buffer,
    stats: &Buffer,
    attention: &RangedAttention,
) -> Result<(), KernelError> {
    const NAME: &str = "ranged_attention_forward";
    attention.check(NAME)?;
    let placed = attention.at(attention.places(NAME, inputs)?);
    check_len(NAME, "o", o, attention.output_len())?;
    check_len(NAME, "stats", stats, [2, attention.all_queries()])?;
    if let Some(key_heads) = key_heads_of_forward(device, &placed) {
        return stored_forward::forward(device, inputs, [o, stats], placed, key_heads);
    }
    let (shader, rows) = Variants::FORWARD.of(attention.head_width);
    let push = placed.push();
    let tiles = attention.queries.div_ceil(rows);
    let groups = tiles * attention.batch * attention.heads;
    Kernel::new(NAME, shader)
        .constants(&placed.constants())
        .reads([inputs.q, inputs.k, inputs.v].map(|x| x.buffer))
        .reads([inputs.query_ranges])
        .reads_if(inputs.counter)
        .writes([o, stats])
        .flops(attention.flops(2))
        .launch(
            device,
            PushConstants::of(&push),
            groups,
            move |read, [o, stats]| {
                let [q, k, v, ranges, counter] = read;
                let inputs = cpu::Inputs::new([q, k, v], &placed, ranges, counter, &push);
                cpu::forward(inputs, o, stats);
            },
        )
}

/// What the backward pass reads besides the inputs, and its scratch.
#[derive(Clone, Copy, Debug)]
pub struct AttentionSaved<'a> {
    /// What [`key_ranges`] wrote: `[B, S, 4]`.
    pub key_ranges: &'a Buffer,
    /// The forward's output.
    pub o: &'a Buffer,
    /// The forward's statistics.
    pub stats: &'a Buffer,
    /// The gradient of `o`.
    pub d_o: &'a Buffer,
    /// `[B, H, T]`; overwritten.
    pub delta: &'a Buffer,
}

/// Computes the gradients of q (`[B, T, H, D]`), k and v (`[B, S, G, D]`); overwrites all three.
///
/// # Errors
/// As [`ranged_attention_forward`].
pub fn ranged_attention_backward(
    device: &Device,
    inputs: &AttentionInputs<'_>,
    saved: &AttentionSaved<'_>,
    [dq, dk, dv]: [&Buffer; 3],
    attention: &RangedAttention,
) -> Result<(), KernelError> {
    const NAME: &str = "ranged_attention_backward";
    let placed = attention.at(attention.check_backward(NAME, inputs, saved, [dq, dk, dv])?);
    backward_delta(device, saved, attention)?;
    if let Some(key_heads) = key_heads_at_a_time(device, &placed, OF_BACKWARD) {
        let stored = stored::Stored {
            inputs,
            saved,
            placed,
        };
        return stored.backward(device, key_heads, [dq, dk, dv]);
    }
    backward_query(device, inputs, saved, dq, placed)?;
    backward_key_value(device, inputs, saved, [dk, dv], placed)
}

fn backward_delta(
    device: &Device,
    saved: &AttentionSaved<'_>,
    attention: &RangedAttention,
) -> Result<(), KernelError> {
    let (shader, rows) = DELTA;
    let attention = *attention;
    let all = attention.all_queries();
    let push = push!(backward_delta =>
        rows: all, heads_a_sequence: attention.heads, time: attention.queries
    );
    Kernel::new("ranged_attention_delta", shader)
        .constants(&[(0, attention.head_width as u32)])
        .reads([saved.o, saved.d_o])
        .writes([saved.delta])
        .launch(
            device,
            push,
            all.div_ceil(rows),
            move |[o, d_o], [delta]| {
                cpu::delta(o, d_o, delta, &attention);
            },
        )
}

fn backward_query(
    device: &Device,
    inputs: &AttentionInputs<'_>,
    saved: &AttentionSaved<'_>,
    dq: &Buffer,
    placed: Placed,
) -> Result<(), KernelError> {
    let attention = &placed.attention;
    let (shader, rows) = Variants::BACKWARD_QUERY.of(attention.head_width);
    let push = placed.push();
    let tiles = attention.queries.div_ceil(rows);
    let groups = tiles * attention.batch * attention.heads;
    Kernel::new("ranged_attention_backward_query", shader)
        .constants(&placed.constants())
        .reads([inputs.q, inputs.k, inputs.v].map(|x| x.buffer))
        .reads([inputs.query_ranges])
        .reads_if(inputs.counter)
        .reads([saved.stats, saved.d_o, saved.delta])
        .writes([dq])
        .flops(attention.flops(3))
        .launch(
            device,
            PushConstants::of(&push),
            groups,
            move |read, [dq]| {
                let [q, k, v, ranges, counter, stats, d_o, delta] = read;
                let inputs = cpu::Inputs::new([q, k, v], &placed, ranges, counter, &push);
                cpu::backward_query(inputs, [stats, d_o, delta], dq);
            },
        )
}

fn backward_key_value(
    device: &Device,
    inputs: &AttentionInputs<'_>,
    saved: &AttentionSaved<'_>,
    [dk, dv]: [&Buffer; 2],
    placed: Placed,
) -> Result<(), KernelError> {
    let attention = &placed.attention;
    let (shader, rows) = Variants::BACKWARD_KEY_VALUE.of(attention.head_width);
    let push = placed.push();
    let tiles = attention.keys.div_ceil(rows);
    let groups = tiles * attention.batch * attention.key_heads;
    Kernel::new("ranged_attention_backward_key_value", shader)
        .constants(&placed.constants())
        .reads([inputs.q, inputs.k, inputs.v].map(|x| x.buffer))
        .reads([inputs.query_ranges, saved.key_ranges])
        .reads_if(inputs.counter)
        .reads([saved.stats, saved.d_o, saved.delta])
        .writes([dk, dv])
        .flops(attention.flops(4))
        .launch(
            device,
            PushConstants::of(&push),
            groups,
            move |read, outputs| {
                let [q, k, v, ranges, key_ranges, counter, stats, d_o, delta] = read;
                let inputs = cpu::Inputs::new([q, k, v], &placed, ranges, counter, &push);
                cpu::backward_key_value(inputs, key_ranges, [stats, d_o, delta], outputs);
            },
        )
}

/// The key of the draws of a sample's weights; `counter` is `[step, first sample]`.
fn draw_key(push: &Push, counter: &[f32], sample: usize) -> [u32; 2] {
    let [step, first] = [as_u32(counter)[0], as_u32(counter)[1]];
    let sample = first.wrapping_add(sample as u32);
    let words = philox4x32(
        [0, sample, step, push.purpose],
        [push.seed_low, push.seed_high],
    );
    [words[0], words[1]]
}
