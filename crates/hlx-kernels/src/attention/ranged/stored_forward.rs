//! The forward pass through stored scores: their products, the softmax and the sums of values are kernels of
//! their own. On GPUs alone, for wide heads.

use hlx_core::{Binding, Buffer, Device, Launch, groups_1d, push_bytes};

use super::shaders::{OUTPUT, OutputPush, SCORES, SOFTMAX, STORED_TILE, ScoresPush, SoftmaxPush};
use super::sizes::Strided;
use super::stored::{key_heads_at_a_time, positions_last};
use super::{AttentionInputs, RangedAttention};
use crate::KernelError;
use crate::attention::no_cpu;

/// The widest heads that the kernel in one piece computes well: with 128 columns it reached 4 TFLOP/s on an
/// H200, where the products by themselves reach 25.
const NARROW: usize = 64;
/// Keys of a block, which update a query's sums together.
const BLOCK: usize = 32;
/// Queries of a workgroup of the softmax.
const SOFTMAX_ROWS: usize = 128;

/// Of how many key heads at a time the scores are stored; none where the kernel in one piece computes them.
pub fn key_heads_of_forward(
    device: &Device,
    attention: &RangedAttention,
    places: &[Strided; 3],
) -> Option<usize> {
    let is_wide = attention.head_width > NARROW;
    let heads = key_heads_at_a_time(device, attention, places, 1);
    heads.filter(|_| is_wide)
}

/// What is stored of some key heads.
struct Scores {
    /// The scores, then the weights, `[heads, S, T]`.
    scores: Buffer,
    /// `[heads, S / 32, T]`.
    corrections: Buffer,
    /// `[heads, T]`.
    sums: Buffer,
}

/// Computes `o` and `stats`, of so many key heads at a time.
pub fn forward(
    device: &Device,
    inputs: &AttentionInputs<'_>,
    [o, stats]: [&Buffer; 2],
    (attention, places): (&RangedAttention, [Strided; 3]),
    key_heads: usize,
) -> Result<(), KernelError> {
    let operands = [
        positions_last(device, inputs.q)?,
        positions_last(device, inputs.k)?,
    ];
    let heads = attention.group() * key_heads;
    let rows = heads * attention.queries;
    let stored = Scores {
        scores: device.alloc_shape(&[rows, attention.keys])?,
        corrections: device.alloc_shape(&[rows, attention.keys.div_ceil(BLOCK)])?,
        sums: device.alloc(rows)?,
    };
    let all = attention.batch * attention.key_heads;
    for first in (0..all).step_by(key_heads) {
        let heads = [first, key_heads.min(all - first)].map(|n| n * attention.group());
        scores(
            device,
            inputs,
            &operands,
            &stored,
            (attention, places, heads),
        )?;
        softmax(device, inputs, &stored, stats, (attention, places, heads))?;
        output(device, inputs, &stored, o, (attention, places, heads))?;
    }
    Ok(())
}

/// The attention, where its operands lie, and the first of the heads with their number.
type Part<'a> = (&'a RangedAttention, [Strided; 3], [usize; 2]);

fn scores(
    device: &Device,
    inputs: &AttentionInputs<'_>,
    [q, k]: &[Buffer; 2],
    stored: &Scores,
    (attention, places, [first, heads]): Part<'_>,
) -> Result<(), KernelError> {
    let all = attention.push(places);
    let push = ScoresPush {
        queries: all.queries,
        keys: all.keys,
        heads: all.heads,
        group: all.group,
        first_head: first as u32,
        stored_heads: heads as u32,
        scale: all.scale,
        cap: all.cap,
        inverse_cap: all.inverse_cap,
        seed_low: all.seed_low,
        seed_high: all.seed_high,
        purpose: all.purpose,
        p: all.p,
        factor: all.factor,
    };
    let [rows, columns] = STORED_TILE;
    let tiles = attention.queries.div_ceil(rows) * attention.keys.div_ceil(columns);
    let launch = Launch {
        name: "ranged_attention_forward_scores",
        shader: SCORES,
        specialization: &[
            (0, attention.head_width as u32),
            (2, u32::from(attention.soft_cap.is_some())),
        ],
        bindings: &[
            Binding::Read(q),
            Binding::Read(k),
            Binding::Read(inputs.query_ranges),
            Binding::Write(&stored.scores),
        ],
        push: push_bytes(&push),
        groups: groups_1d(heads * tiles),
    };
    let work = attention.work_of_heads(&launch, heads, 1);
    Ok(device.launch_counted(launch, work, no_cpu)?)
}

fn softmax(
    device: &Device,
    inputs: &AttentionInputs<'_>,
    stored: &Scores,
    stats: &Buffer,
    (attention, places, [first, heads]): Part<'_>,
) -> Result<(), KernelError> {
    let all = attention.push(places);
    let push = SoftmaxPush {
        queries: all.queries,
        keys: all.keys,
        heads: all.heads,
        first_head: first as u32,
        stored_heads: heads as u32,
        seed_low: all.seed_low,
        seed_high: all.seed_high,
        purpose: all.purpose,
        p: all.p,
        factor: all.factor,
    };
    let launch = Launch {
        name: "ranged_attention_forward_softmax",
        shader: SOFTMAX,
        specialization: &[(3, u32::from(attention.dropout.is_some()))],
        bindings: &[
            Binding::Read(inputs.query_ranges),
            Binding::Read(inputs.counter.unwrap_or(inputs.query_ranges)),
            Binding::ReadWrite(&stored.scores),
            Binding::Write(&stored.corrections),
            Binding::Write(&stored.sums),
            // The other parts are written by other launches.
            Binding::ReadWrite(stats),
        ],
        push: push_bytes(&push),
        groups: groups_1d((heads * attention.queries).div_ceil(SOFTMAX_ROWS)),
    };
    Ok(device.launch(launch, no_cpu)?)
}

fn output(
    device: &Device,
    inputs: &AttentionInputs<'_>,
    stored: &Scores,
    o: &Buffer,
    (attention, [_, _, of_v], [first, heads]): Part<'_>,
) -> Result<(), KernelError> {
    let push = OutputPush {
        rows: attention.queries as u32,
        terms: attention.keys as u32,
        heads: attention.heads as u32,
        repeats: 1,
        column_group: attention.group() as u32,
        first_head: first as u32,
        n_heads: heads as u32,
        columns_first: of_v.first as u32,
        columns_batch: of_v.batch as u32,
        columns_position: of_v.position as u32,
        columns_head: of_v.head as u32,
        last_first: u32::from(attention.causal),
        scale: 1.0,
    };
    let [tile, width] = STORED_TILE;
    let chunks = attention.head_width.div_ceil(width);
    let launch = Launch {
        name: "ranged_attention_forward_output",
        shader: OUTPUT,
        specialization: &[(0, attention.head_width as u32)],
        bindings: &[
            Binding::Read(&stored.scores),
            Binding::Read(inputs.v.buffer),
            Binding::Read(inputs.query_ranges),
            Binding::ReadWrite(o),
            Binding::Read(&stored.corrections),
            Binding::Read(&stored.sums),
        ],
        push: push_bytes(&push),
        groups: groups_1d(attention.queries.div_ceil(tile) * heads * chunks),
    };
    let work = attention.work_of_heads(&launch, heads, 1);
    Ok(device.launch_counted(launch, work, no_cpu)?)
}
