//! The backward pass that stores the weights and the scores' gradients: each pair's are computed once, and
//! the gradients are sums over stored numbers. On GPUs alone.

use hlx_core::{Buffer, Device};

use super::shaders::{STORED_TILE, sum, weights};
use super::sizes::{Placed, Strided};
use super::{AttentionInputs, AttentionSaved};
use crate::elementwise::copy_strided;
use crate::kernel::Kernel;
use crate::{KernelError, Layout, Operand};

const NAME: &str = "ranged_attention_backward";
/// What the backward pass reads.
pub struct Stored<'a> {
    pub inputs: &'a AttentionInputs<'a>,
    pub saved: &'a AttentionSaved<'a>,
    pub placed: Placed,
}

/// The stored numbers of some key heads.
struct Weights {
    /// `[heads, T, S]`.
    w: Buffer,
    ds: Buffer,
    /// `[heads, S, T]`.
    transposed_ds: Buffer,
}

/// One gradient: what is summed, and where.
struct Sum<'a> {
    name: &'static str,
    weights: &'a Buffer,
    columns: &'a Buffer,
    /// Where the rows of the columns lie.
    place: Strided,
    ranges: &'a Buffer,
    out: &'a Buffer,
    /// Whether it is a key's or a value's, and so a sum over queries.
    over_queries: bool,
    /// What the sum is multiplied by.
    scale: f32,
}

impl Stored<'_> {
    /// Computes the gradients, of so many key heads at a time.
    pub fn backward(
        &self,
        device: &Device,
        key_heads: usize,
        [dq, dk, dv]: [&Buffer; 3],
    ) -> Result<(), KernelError> {
        let (attention, saved) = (&self.placed.attention, self.saved);
        let [of_q, of_k, _] = self.placed.places;
        let upstream = Layout::contiguous(&[
            attention.batch,
            attention.queries,
            attention.heads,
            attention.head_width,
        ])?;
        let of_d_o = Strided {
            first: 0,
            batch: attention.queries * attention.heads * attention.head_width,
            position: attention.heads * attention.head_width,
            head: attention.head_width,
        };
        let d_o = Operand {
            buffer: saved.d_o,
            layout: &upstream,
        };
        let inputs = self.inputs;
        let [q, k, v, d_o] = [inputs.q, inputs.k, inputs.v, d_o].map(|x| positions_last(device, x));
        let operands = [q?, k?, v?, d_o?];
        let words = attention.group() * key_heads * attention.queries * attention.keys;
        let stored = Weights {
            w: device.alloc(words)?,
            ds: device.alloc(words)?,
            transposed_ds: device.alloc(words)?,
        };
        let all = attention.batch * attention.key_heads;
        for first in (0..all).step_by(key_heads) {
            let part = [first, key_heads.min(all - first)];
            self.weights(device, &operands, &stored, part)?;
            let of_queries = Sum {
                name: "ranged_attention_backward_query",
                weights: &stored.transposed_ds,
                columns: inputs.k.buffer,
                place: of_k,
                ranges: inputs.query_ranges,
                out: dq,
                over_queries: false,
                scale: attention.scale,
            };
            self.sum(device, &of_queries, part)?;
            let of_keys = Sum {
                name: "ranged_attention_backward_key",
                weights: &stored.ds,
                columns: inputs.q.buffer,
                place: of_q,
                ranges: saved.key_ranges,
                out: dk,
                over_queries: true,
                scale: attention.scale,
            };
            self.sum(device, &of_keys, part)?;
            let of_values = Sum {
                name: "ranged_attention_backward_value",
                weights: &stored.w,
                columns: saved.d_o,
                place: of_d_o,
                out: dv,
                scale: 1.0,
                ..of_keys
            };
            self.sum(device, &of_values, part)?;
        }
        Ok(())
    }

    /// Computes the weights of `part`: the first key head, and how many.
    fn weights(
        &self,
        device: &Device,
        [q, k, v, d_o]: &[Buffer; 4],
        stored: &Weights,
        [first, key_heads]: [usize; 2],
    ) -> Result<(), KernelError> {
        let (attention, inputs) = (&self.placed.attention, self.inputs);
        let heads = key_heads * attention.group();
        let all = self.placed.push();
        let push = push!(weights =>
            queries: all.queries, keys: all.keys, heads: all.heads, group: all.group,
            first_head: first * attention.group(), stored_heads: heads,
            scale: all.scale, cap: all.cap, inverse_cap: all.inverse_cap, seed_low: all.seed_low,
            seed_high: all.seed_high, purpose: all.purpose, p: all.p, factor: all.factor
        );
        let [rows, columns] = STORED_TILE;
        let tiles = attention.queries.div_ceil(rows) * attention.keys.div_ceil(columns);
        Kernel::new("ranged_attention_backward_weights", &weights::SHADER)
            .constants(&[
                (0, attention.head_width as u32),
                (2, u32::from(attention.soft_cap.is_some())),
                (3, u32::from(attention.dropout.is_some())),
            ])
            .reads([q, k, v, d_o, inputs.query_ranges])
            .reads_if(inputs.counter)
            .reads([self.saved.stats, self.saved.delta])
            // Read back where a weight is p itself.
            .updates([&stored.w])
            .writes([&stored.ds, &stored.transposed_ds])
            .flops(attention.flops_of_heads(heads, 2))
            .launch_on_gpu(device, push, heads * tiles)
    }

    /// Sums one gradient of `part`: over keys for the queries, or over queries for the keys.
    fn sum(
        &self,
        device: &Device,
        gradient: &Sum<'_>,
        [first, key_heads]: [usize; 2],
    ) -> Result<(), KernelError> {
        let attention = &self.placed.attention;
        let group = attention.group();
        let (over_queries, strides) = (gradient.over_queries, gradient.place);
        let [of_keys, of_queries] = [
            [attention.keys, attention.key_heads],
            [attention.queries, attention.heads],
        ];
        let ([rows, heads], [terms, _]) = match over_queries {
            true => (of_keys, of_queries),
            false => (of_queries, of_keys),
        };
        let (repeats, column_group) = if over_queries { (group, 1) } else { (1, group) };
        // Of the rows' heads.
        let [first, n_heads] = [first, key_heads].map(|n| n * column_group);
        let push = push!(sum =>
            rows, terms, heads, repeats, column_group, first_head: first, n_heads,
            columns_first: strides.first, columns_batch: strides.batch,
            columns_position: strides.position, columns_head: strides.head,
            last_first: attention.causal && !over_queries,
            scale: gradient.scale
        );
        let [tile, width] = STORED_TILE;
        let chunks = attention.head_width.div_ceil(width);
        Kernel::new(gradient.name, &sum::SHADER)
            .constants(&[(0, attention.head_width as u32)])
            .reads([gradient.weights, gradient.columns, gradient.ranges])
            // The other parts are written by other launches.
            .updates([gradient.out])
            .flops(attention.flops_of_heads(key_heads * group, 1))
            .launch_on_gpu(device, push, rows.div_ceil(tile) * n_heads * chunks)
    }
}

/// Copies `[B, T, H, D]` to `[B, H, D, T]`.
pub fn positions_last(device: &Device, x: Operand<'_>) -> Result<Buffer, KernelError> {
    let layout = x.layout.permute(&[0, 2, 3, 1]);
    let layout = layout.map_err(|reason| KernelError::Argument {
        operation: NAME,
        reason,
    })?;
    let copy = device.alloc(layout.n_elements())?;
    let operand = Operand {
        buffer: x.buffer,
        layout: &layout,
    };
    copy_strided(device, operand, &copy)?;
    Ok(copy)
}
