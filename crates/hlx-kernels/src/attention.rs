//! Causal scaled dot-product attention in blocks; the T x T matrix is never stored.
//!
//! Forward, for query `i` and the keys `j <= i` in blocks of 32 from key 0, `scale = 1 / sqrt(D)`:
//! `s_j = (sum_d q[i, d] k[j, d]) * scale`; a block updates with `m' = max(m, max_j s_j)`,
//! `c = exp(m - m')`, `p_j = exp(s_j - m')`: `l = l c`, then `l = l + p_j` in order; `o = o c`,
//! then `o = fma(p_j, v[j], o)` in order. At the end `o = o / l`, and `stats` keeps `(m, 1 / l)`.
//! (Milakov and Gimelshein 2018; Dao et al. 2022.)
//!
//! Backward: `delta_i = sum_d do[i, d] o[i, d]`, `p_ij = exp(s_ij - m_i) * (1 / l_i)`,
//! `dp_ij = sum_d do[i, d] v[j, d]`, `ds_ij = p_ij (dp_ij - delta_i)`;
//! `dq_i = (sum_{j <= i} ds_ij k_j) * scale`, `dk_j = (sum_{i >= j} ds_ij q_i) * scale`,
//! `dv_j = sum_{i >= j} p_ij do_i`. On a GPU, for heads of at most 64 columns, one kernel writes
//! delta, a second dK, dV and ds, a third dQ from it, over as many heads at a time as ds has memory
//! for: five products. Elsewhere one kernel writes delta and dQ, a second dK and dV: seven.
//!
//! Every sum is one fma chain in increasing order of its index, from +0, and ends with -0 turned
//! into +0. A query reads only keys of its own sequence at or before it, so its result does not
//! depend on the batch nor on padding at the right: the pairs `j > i` are skipped, never multiplied by 0,
//! so that a NaN or an infinity behind a query does not reach it.
//!
//! Shapes: `qkv`, `dqkv` `[B, T, 3, H, D]`; `o`, `d_o` `[B, T, H, D]`; `stats` `[B, H, T, 2]`;
//! `delta` `[B, H, T]`; `D` from 1 to 128.
//! PyTorch: `torch.nn.functional.scaled_dot_product_attention(..., is_causal=True)`.

use hlx_core::cpu::with_flush;
use hlx_core::{Buffer, Device, arith, sizes};

use crate::KernelError;
use crate::error::{check_len, check_that};
use crate::kernel::{Kernel, PushConstants};

pub mod append;
mod cached;
mod cpu;
pub mod dropped;
mod entry;
mod plan;
pub mod ranged;
mod shaders;
#[cfg(test)]
mod tests;
mod tile;

pub use cached::CachedHeads;
use dropped::DroppedWeights;
pub use entry::{AttentionOperands, AttentionOutput, PreparedAttention, layouts_of_packed};
use plan::{choose, heads_at_a_time};
use shaders::{
    BACKWARD_KEY_VALUE, BACKWARD_QUERY, DELTA, FORWARD, STORED_KEY_VALUE, STORED_QUERY, Variant,
    backward_delta, backward_query_stored, wide_forward,
};

/// The sizes of one attention.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AttentionShape {
    /// Sequences, `B`.
    pub batch: usize,
    /// Positions a sequence, `T`.
    pub time: usize,
    /// Heads, `H`.
    pub heads: usize,
    /// Width of a head, `D`: 1 to 128.
    pub head_width: usize,
}

impl AttentionShape {
    /// Elements of `o`: `B T H D`.
    fn output_len(&self) -> usize {
        self.batch * self.time * self.heads * self.head_width
    }

    /// Queries of all heads: `B H T`.
    fn queries(&self) -> usize {
        self.batch * self.heads * self.time
    }

    /// Heads of all sequences.
    fn all_heads(&self) -> usize {
        self.batch * self.heads
    }

    /// Words of one head's ds: blocks of 32 queries and 32 keys at or below the diagonal.
    fn stored_words(&self) -> usize {
        let blocks = self.time.div_ceil(32);
        blocks * (blocks + 1) / 2 * 1024
    }

    /// What a kernel that carries out `products` products of T x T x D for each of `heads` heads
    /// counts: those at or below the diagonal.
    fn flops(&self, heads: usize, products: u64) -> u64 {
        let pairs = (heads * self.time) as u64 * (self.time as u64 + 1) / 2;
        2 * products * pairs * self.head_width as u64
    }

    fn check(&self, operation: &'static str) -> Result<(), KernelError> {
        let width = self.head_width;
        check_that(operation, (1..=128).contains(&width), || {
            format!("head_width is {width}, expected 1 to 128")
        })?;
        check_that(operation, self.time > 0 && self.heads > 0, || {
            format!(
                "{} positions and {} heads, expected some",
                self.time, self.heads
            )
        })?;
        let len = sizes::checked_elements(&[self.batch, self.time, 3, self.heads, width]);
        check_that(
            operation,
            len.is_some_and(|len| u32::try_from(len).is_ok()),
            || format!("qkv of {self:?} has more than 2^32 - 1 elements"),
        )
    }

    fn scale(&self) -> f32 {
        default_scale(self.head_width)
    }

    fn push(&self) -> PushConstants {
        push!(wide_forward =>
            heads: self.all_heads(), heads_a_sequence: self.heads, time: self.time, scale: self.scale()
        )
    }

    /// The specialization constants: `D`, and whether rows are whole vectors of four.
    fn constants(&self) -> [(u32, u32); 2] {
        let vector = u32::from(self.head_width.is_multiple_of(4));
        [(0, self.head_width as u32), (1, vector)]
    }
}

/// What scores are multiplied by unless another scale is given: `1 / sqrt(head_width)`.
pub fn default_scale(head_width: usize) -> f32 {
    with_flush(|| arith::rsqrt(head_width as f32))
}

/// Computes `o` and the statistics that the backward needs; overwrites both.
///
/// `qkv`: `[B, T, 3, H, D]`; `o`: `[B, T, H, D]`; `stats`: `[B, H, T, 2]`.
///
/// # Errors
/// If a buffer has another length, `D` is not within 1 to 128, or the launch fails.
pub fn attention_forward(
    device: &Device,
    qkv: &Buffer,
    o: &Buffer,
    stats: &Buffer,
    shape: &AttentionShape,
) -> Result<(), KernelError> {
    check_forward("attention_forward", [qkv, o, stats], shape)?;
    forward(
        device,
        qkv,
        o,
        stats,
        *shape,
        choose(device, shape, &FORWARD),
    )
}

fn check_forward(
    name: &'static str,
    [qkv, o, stats]: [&Buffer; 3],
    shape: &AttentionShape,
) -> Result<(), KernelError> {
    shape.check(name)?;
    check_len(name, "qkv", qkv, [3, shape.output_len()])?;
    check_len(name, "o", o, shape.output_len())?;
    check_len(name, "stats", stats, [2, shape.queries()])
}

fn check_backward(
    name: &'static str,
    [qkv, o, stats, d_o, delta, dqkv]: [&Buffer; 6],
    shape: &AttentionShape,
) -> Result<(), KernelError> {
    check_forward(name, [qkv, o, stats], shape)?;
    check_len(name, "d_o", d_o, shape.output_len())?;
    check_len(name, "delta", delta, shape.queries())?;
    check_len(name, "dqkv", dqkv, [3, shape.output_len()])
}

fn forward(
    device: &Device,
    qkv: &Buffer,
    o: &Buffer,
    stats: &Buffer,
    shape: AttentionShape,
    variant: &Variant,
) -> Result<(), KernelError> {
    let (heads, scale) = (shape.all_heads(), shape.scale());
    let groups = variant.groups(&shape, heads);
    Kernel::new("attention_forward", variant.shader)
        .constants(&shape.constants())
        .reads([qkv])
        .writes([o, stats])
        .flops(shape.flops(heads, 2))
        .launch(device, shape.push(), groups, move |[qkv], [o, stats]| {
            cpu::forward(qkv, o, stats, &shape, scale);
        })
}

/// Computes `dqkv` from the forward's input, output and statistics; overwrites `dqkv` and `delta`.
///
/// `qkv`, `dqkv`: `[B, T, 3, H, D]`; `o`, `d_o`: `[B, T, H, D]`; `stats`: `[B, H, T, 2]`;
/// `delta`: `[B, H, T]`, scratch.
///
/// # Errors
/// As [`attention_forward`].
#[allow(clippy::too_many_arguments)] // Two kernels' buffers, flat as everywhere here.
pub fn attention_backward(
    device: &Device,
    qkv: &Buffer,
    o: &Buffer,
    stats: &Buffer,
    d_o: &Buffer,
    delta: &Buffer,
    dqkv: &Buffer,
    shape: &AttentionShape,
) -> Result<(), KernelError> {
    let buffers = [qkv, o, stats, d_o, delta, dqkv];
    check_backward("attention_backward", buffers, shape)?;
    let variant = choose(device, shape, &STORED_KEY_VALUE);
    if let Some(heads) = heads_at_a_time(device, shape, variant) {
        let (inputs, kernel) = ([qkv, o, stats, d_o], (variant, heads, None));
        return backward_stored(device, inputs, delta, dqkv, *shape, kernel);
    }
    backward_query(device, [qkv, o, stats, d_o], delta, dqkv, *shape)?;
    backward_key_value(device, [qkv, stats, d_o, delta], dqkv, *shape)
}

/// The kernel for dK and dV of a backward that keeps ds, the heads whose ds it keeps at a time, and the
/// weights that are dropped.
type StoredKernel<'a> = (&'a Variant, usize, Option<&'a DroppedWeights<'a>>);

/// The backward that keeps ds, on GPUs alone: the CPU device takes the other two kernels.
fn backward_stored(
    device: &Device,
    [qkv, o, stats, d_o]: [&Buffer; 4],
    delta: &Buffer,
    dqkv: &Buffer,
    shape: AttentionShape,
    (key_value, heads, dropped): StoredKernel<'_>,
) -> Result<(), KernelError> {
    backward_delta(device, o, d_o, delta, &shape)?;
    let ds = device.alloc_shape(&[heads, shape.stored_words()])?;
    for first in (0..shape.all_heads()).step_by(heads) {
        let heads = heads.min(shape.all_heads() - first);
        let push = push!(backward_query_stored =>
            heads, heads_a_sequence: shape.heads, time: shape.time, scale: shape.scale(),
            first_head: first
        );
        let constants = shape.constants();
        let kernel = Kernel::new("attention_backward_key_value", key_value.shader)
            .constants(&constants)
            .reads([qkv, stats, d_o, delta])
            // Two thirds of it are written here, the rest by the next launch.
            .updates([dqkv])
            .writes([&ds])
            .flops(shape.flops(heads, 4));
        let groups = key_value.groups(&shape, heads);
        match dropped {
            Some(dropped) => kernel.reads([dropped.counter]).launch_on_gpu(
                device,
                dropped.push(&shape, heads, first),
                groups,
            )?,
            None => kernel.launch_on_gpu(device, push, groups)?,
        }
        Kernel::new("attention_backward_query", STORED_QUERY.shader)
            .constants(&constants)
            .reads([qkv, &ds])
            .updates([dqkv])
            .flops(shape.flops(heads, 1))
            .launch_on_gpu(device, push, STORED_QUERY.groups(&shape, heads))?;
    }
    Ok(())
}

fn backward_delta(
    device: &Device,
    o: &Buffer,
    d_o: &Buffer,
    delta: &Buffer,
    shape: &AttentionShape,
) -> Result<(), KernelError> {
    let (shader, rows) = DELTA;
    let push = push!(backward_delta =>
        rows: shape.queries(), heads_a_sequence: shape.heads, time: shape.time
    );
    Kernel::new("attention_backward_delta", shader)
        .constants(&shape.constants())
        .reads([o, d_o])
        .writes([delta])
        .launch_on_gpu(device, push, shape.queries().div_ceil(rows))
}

fn backward_query(
    device: &Device,
    [qkv, o, stats, d_o]: [&Buffer; 4],
    delta: &Buffer,
    dqkv: &Buffer,
    shape: AttentionShape,
) -> Result<(), KernelError> {
    let (heads, scale) = (shape.all_heads(), shape.scale());
    let groups = BACKWARD_QUERY.groups(&shape, heads);
    Kernel::new("attention_backward_query", BACKWARD_QUERY.shader)
        .constants(&shape.constants())
        .reads([qkv, o, stats, d_o])
        .writes([delta])
        // A third of it is written here, the rest by the next launch.
        .updates([dqkv])
        .flops(shape.flops(heads, 3))
        .launch(
            device,
            shape.push(),
            groups,
            move |inputs, [delta, dqkv]| {
                cpu::backward_query(inputs, delta, dqkv, &shape, scale);
            },
        )
}

fn backward_key_value(
    device: &Device,
    [qkv, stats, d_o, delta]: [&Buffer; 4],
    dqkv: &Buffer,
    shape: AttentionShape,
) -> Result<(), KernelError> {
    let (heads, scale) = (shape.all_heads(), shape.scale());
    let groups = BACKWARD_KEY_VALUE.groups(&shape, heads);
    Kernel::new("attention_backward_key_value", BACKWARD_KEY_VALUE.shader)
        .constants(&shape.constants())
        .reads([qkv, stats, d_o, delta])
        .updates([dqkv])
        .flops(shape.flops(heads, 4))
        .launch(device, shape.push(), groups, move |inputs, [dqkv]| {
            cpu::backward_key_value(inputs, dqkv, &shape, scale);
        })
}
