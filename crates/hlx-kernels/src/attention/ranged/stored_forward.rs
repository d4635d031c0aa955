//! The forward pass through stored scores: their products, the softmax and the sums of values are kernels of
//! their own. On GPUs alone, for wide heads.

use hlx_core::{Buffer, Device};

use super::AttentionInputs;
use super::shaders::{STORED_TILE, output, scores, softmax};
use super::sizes::Placed;
use super::stored::positions_last;
use crate::KernelError;
use crate::kernel::Kernel;

/// Keys of a block, which update a query's sums together.
const BLOCK: usize = 32;
/// Queries of a workgroup of the softmax.
const SOFTMAX_ROWS: usize = 128;

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
    placed: Placed,
    key_heads: usize,
) -> Result<(), KernelError> {
    let attention = &placed.attention;
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
        let group = attention.group();
        let part = Part {
            inputs,
            stored: &stored,
            placed,
            first: first * group,
            heads: key_heads.min(all - first) * group,
        };
        part.launch_scores(device, &operands)?;
        part.launch_softmax(device, stats)?;
        part.launch_output(device, o)?;
    }
    Ok(())
}

/// Some heads of an attention.
struct Part<'a> {
    inputs: &'a AttentionInputs<'a>,
    stored: &'a Scores,
    placed: Placed,
    /// The first head.
    first: usize,
    heads: usize,
}

impl Part<'_> {
    fn launch_scores(&self, device: &Device, [q, k]: &[Buffer; 2]) -> Result<(), KernelError> {
        let Self {
            inputs,
            stored,
            placed,
            first,
            heads,
        } = *self;
        let (attention, all) = (placed.attention, placed.push());
        let push = push!(scores =>
            queries: all.queries, keys: all.keys, heads: all.heads, group: all.group,
            first_head: first, stored_heads: heads,
            scale: all.scale, cap: all.cap, inverse_cap: all.inverse_cap, seed_low: all.seed_low,
            seed_high: all.seed_high, purpose: all.purpose, p: all.p, factor: all.factor
        );
        let [rows, columns] = STORED_TILE;
        let tiles = attention.queries.div_ceil(rows) * attention.keys.div_ceil(columns);
        Kernel::new("ranged_attention_forward_scores", &scores::SHADER)
            .constants(&[
                (0, attention.head_width as u32),
                (2, u32::from(attention.soft_cap.is_some())),
            ])
            .reads([q, k, inputs.query_ranges])
            .writes([&stored.scores])
            .flops(attention.flops_of_heads(heads, 1))
            .launch_on_gpu(device, push, heads * tiles)
    }

    fn launch_softmax(&self, device: &Device, stats: &Buffer) -> Result<(), KernelError> {
        let Self {
            inputs,
            stored,
            placed,
            first,
            heads,
        } = *self;
        let (attention, all) = (placed.attention, placed.push());
        let push = push!(softmax =>
            queries: all.queries, keys: all.keys, heads: all.heads, first_head: first,
            stored_heads: heads, seed_low: all.seed_low, seed_high: all.seed_high,
            purpose: all.purpose, p: all.p, factor: all.factor
        );
        Kernel::new("ranged_attention_forward_softmax", &softmax::SHADER)
            .constants(&[(3, u32::from(attention.dropout.is_some()))])
            .reads([inputs.query_ranges])
            .reads_if(inputs.counter)
            .updates([&stored.scores])
            .writes([&stored.corrections, &stored.sums])
            // The other parts are written by other launches.
            .updates([stats])
            .launch_on_gpu(
                device,
                push,
                (heads * attention.queries).div_ceil(SOFTMAX_ROWS),
            )
    }

    fn launch_output(&self, device: &Device, o: &Buffer) -> Result<(), KernelError> {
        let Self {
            inputs,
            stored,
            placed,
            first,
            heads,
        } = *self;
        let Placed {
            attention,
            places: [_, _, of_v],
        } = placed;
        let push = push!(output =>
            rows: attention.queries, terms: attention.keys, heads: attention.heads, repeats: 1_u32,
            column_group: attention.group(), first_head: first, n_heads: heads,
            columns_first: of_v.first, columns_batch: of_v.batch, columns_position: of_v.position,
            columns_head: of_v.head, last_first: attention.causal, scale: 1.0
        );
        let [tile, width] = STORED_TILE;
        let chunks = attention.head_width.div_ceil(width);
        Kernel::new("ranged_attention_forward_output", &output::SHADER)
            .constants(&[(0, attention.head_width as u32)])
            .reads([&stored.scores, inputs.v.buffer, inputs.query_ranges])
            .updates([o])
            .reads([&stored.corrections, &stored.sums])
            .flops(attention.flops_of_heads(heads, 1))
            .launch_on_gpu(
                device,
                push,
                attention.queries.div_ceil(tile) * heads * chunks,
            )
    }
}
