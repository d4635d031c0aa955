//! New tokens on their way into attention with a cache, in one launch: heads of queries and keys are normed
//! and turned where they are to be, and keys and values are written behind those that the cache holds.
//!
//! Token `t` of sample `b` has the place `p = first_positions[b] + t`; with `p >= lengths[b]` it is padding,
//! and the cache stays. A head `x` of a query or a key becomes `rope(rms_norm(x))`: the functions of
//! [`norm`](crate::norm) over the head's width and of [`rope`](crate::rope) at position `p`, with
//! their bits, each where it is given. Values are copied.
//!
//! Shapes: rows of `q` `[H, D]`, of `k` and `v` `[G, D]`, one for each of the `B T` tokens, by row strides;
//! `q_out` `[B, T, H, D]`; the caches `[B, S, G, D]`.

use hlx_core::{Buffer, Device, as_u32, sizes};
use rayon::prelude::*;

use crate::KernelError;
use crate::error::{check_len, check_sizes, check_that};
use crate::kernel::{Kernel, PushConstants};
use crate::norm::{Gain, forward_rows};
use crate::rope::{turn_head, turn_of};

mod integers;
#[cfg(test)]
mod tests;

pub use integers::append_integer_heads;

shader!(shader, attention::append);

const NAME: &str = "append_heads";
/// Heads of a workgroup.
const GROUP_HEADS: usize = 8;

/// The sizes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct AppendShape {
    /// Sequences, `B`.
    pub batch: usize,
    /// Tokens of a sequence, `T`.
    pub time: usize,
    /// Heads of queries, `H`; 0 if keys and values alone are appended.
    pub heads: usize,
    /// Heads of keys and values, `G`.
    pub key_heads: usize,
    /// Width of a head, `D`.
    pub head_width: usize,
    /// Places of a sequence in the cache, `S`.
    pub capacity: usize,
}

/// Heads of all tokens: token `r` has its own from element `first + r stride` on, side by side.
#[derive(Clone, Copy, Debug)]
pub struct HeadRows<'a> {
    /// The memory.
    pub buffer: &'a Buffer,
    /// The first element.
    pub first: usize,
    /// The elements from a token to the next one.
    pub stride: usize,
}

/// The norm of the heads of queries and keys.
#[derive(Clone, Copy, Debug)]
pub struct HeadNorms<'a> {
    /// The gains of queries and keys, `[D]`.
    pub weights: [&'a Buffer; 2],
    /// What is added under the root.
    pub eps: f32,
}

/// The turn of the heads of queries and keys.
#[derive(Clone, Copy, Debug)]
pub struct HeadTurn<'a> {
    /// The angle of a step of each pair, `[half]`, `2 half <= D`.
    pub frequencies: &'a Buffer,
    /// What sines and cosines are multiplied by.
    pub scale: f32,
}

/// What is read.
#[derive(Clone, Copy, Debug)]
pub struct AppendInputs<'a> {
    /// Queries; not read where there are no heads of them.
    pub q: HeadRows<'a>,
    /// Keys.
    pub k: HeadRows<'a>,
    /// Values.
    pub v: HeadRows<'a>,
    /// The norms, if heads are normed.
    pub norms: Option<HeadNorms<'a>>,
    /// The turn, if heads are turned.
    pub turn: Option<HeadTurn<'a>>,
    /// `[B]`: the place of each sequence's first token.
    pub first_positions: &'a Buffer,
    /// `[B]`: the tokens of each sequence, the new ones included.
    pub lengths: &'a Buffer,
}

impl AppendShape {
    fn rows(&self) -> usize {
        self.batch * self.time
    }

    fn check(
        &self,
        inputs: &AppendInputs<'_>,
        q_out: &Buffer,
        caches: [&Buffer; 2],
    ) -> Result<(), KernelError> {
        let cached = [self.batch, self.capacity, self.key_heads, self.head_width];
        check_len(
            NAME,
            "q_out",
            q_out,
            [self.batch, self.time, self.heads, self.head_width],
        )?;
        check_len(NAME, "the cache of keys", caches[0], cached)?;
        check_len(NAME, "the cache of values", caches[1], cached)?;
        self.check_inputs(inputs)
    }

    /// Checks what both caches take.
    fn check_inputs(&self, inputs: &AppendInputs<'_>) -> Result<(), KernelError> {
        let width = self.head_width;
        let [per_query, per_key] = [self.heads, self.key_heads];
        for (positions, heads) in [
            (self.time, per_query),
            (self.time, per_key),
            (self.capacity, per_key),
        ] {
            check_sizes(NAME, &[self.batch, positions, heads, width])?;
        }
        let cached = self.batch * self.capacity * self.key_heads * width;
        check_len(NAME, "first_positions", inputs.first_positions, self.batch)?;
        check_len(NAME, "lengths", inputs.lengths, self.batch)?;
        for (name, rows, heads) in [
            ("q", &inputs.q, self.heads),
            ("k", &inputs.k, self.key_heads),
            ("v", &inputs.v, self.key_heads),
        ] {
            let last = sizes::checked_product([self.rows().saturating_sub(1), rows.stride]);
            let end = last.and_then(|last| sizes::checked_sum([rows.first, last, heads * width]));
            let fits = end.is_some_and(|end| end <= rows.buffer.len());
            check_that(NAME, heads == 0 || fits, || {
                let len = rows.buffer.len();
                match end {
                    Some(end) => format!("{name} ends at element {end} of {len}"),
                    None => format!("{name} ends past all memory, its buffer has {len} elements"),
                }
            })?;
        }
        if let Some(norms) = &inputs.norms {
            check_len(NAME, "the norm of queries", norms.weights[0], width)?;
            check_len(NAME, "the norm of keys", norms.weights[1], width)?;
        }
        let pairs = inputs.turn.map_or(0, |turn| turn.frequencies.len());
        check_that(NAME, 2 * pairs <= width, || {
            format!(
                "{pairs} frequencies turn {} elements, and a head has {width}",
                2 * pairs
            )
        })?;
        let largest = [&inputs.q, &inputs.k, &inputs.v].map(|rows| rows.buffer.len());
        let largest = largest.into_iter().fold(cached, usize::max);
        check_that(NAME, u32::try_from(largest).is_ok(), || {
            format!(
                "an operand has {largest} elements, expected at most {}",
                u32::MAX
            )
        })
    }

    fn push(&self, inputs: &AppendInputs<'_>) -> shader::Push {
        shader::Push {
            rows: self.rows() as u32,
            time: self.time as u32,
            heads: self.heads as u32,
            key_heads: self.key_heads as u32,
            width: self.head_width as u32,
            capacity: self.capacity as u32,
            pairs: inputs.turn.map_or(0, |turn| turn.frequencies.len() as u32),
            q_first: inputs.q.first as u32,
            q_row: inputs.q.stride as u32,
            k_first: inputs.k.first as u32,
            k_row: inputs.k.stride as u32,
            v_first: inputs.v.first as u32,
            v_row: inputs.v.stride as u32,
            eps: inputs.norms.map_or(0.0, |norms| norms.eps),
            scale: inputs.turn.map_or(1.0, |turn| turn.scale),
        }
    }
}

/// Writes the queries, overwriting `q_out`, and the keys and values of the new tokens into the caches, whose
/// other places stay.
///
/// # Errors
/// If a buffer has another length, or the launch fails.
pub fn append_heads(
    device: &Device,
    inputs: &AppendInputs<'_>,
    q_out: &Buffer,
    caches: [&Buffer; 2],
    shape: &AppendShape,
) -> Result<(), KernelError> {
    shape.check(inputs, q_out, caches)?;
    let lines = shape.rows() * (shape.heads + 2 * shape.key_heads);
    if lines * shape.head_width == 0 {
        return Ok(());
    }
    let push = shape.push(inputs);
    let constants = [(0, u32::from(inputs.norms.is_some()))];
    let kernel = Kernel::new(NAME, &shader::SHADER).constants(&constants);
    let kernel = inputs
        .read_by(kernel, shape)
        .writes([q_out])
        .updates(caches);
    let (block, groups) = (PushConstants::of(&push), lines.div_ceil(GROUP_HEADS));
    let (shape, is_normed) = (*shape, inputs.norms.is_some());
    kernel.launch(device, block, groups, move |read, [q_out, keys, values]| {
        Twin::new(shape, &push, is_normed, read).run(q_out, keys, values);
    })
}

impl<'a> AppendInputs<'a> {
    /// Adds these buffers to a kernel of heads.
    fn read_by(&self, kernel: Kernel<'a>, shape: &AppendShape) -> Kernel<'a> {
        let [q_weight, k_weight] = [0, 1].map(|i| self.norms.map(|norms| norms.weights[i]));
        kernel
            .reads_if((shape.heads > 0).then_some(self.q.buffer))
            .reads([self.k.buffer, self.v.buffer])
            .reads_if(q_weight)
            .reads_if(k_weight)
            .reads_if(self.turn.map(|turn| turn.frequencies))
            .reads([self.first_positions, self.lengths])
    }
}

/// The CPU twin.
struct Twin<'a> {
    shape: AppendShape,
    push: &'a shader::Push,
    operands: [&'a [f32]; 3],
    weights: Option<[&'a [f32]; 2]>,
    frequencies: &'a [f32],
    first: &'a [u32],
    lengths: &'a [u32],
}

impl<'a> Twin<'a> {
    fn new(
        shape: AppendShape,
        push: &'a shader::Push,
        is_normed: bool,
        [q, k, v, q_weight, k_weight, frequencies, first, lengths]: [&'a [f32]; 8],
    ) -> Self {
        Self {
            shape,
            push,
            operands: [q, k, v],
            weights: is_normed.then_some([q_weight, k_weight]),
            frequencies: &frequencies[..push.pairs as usize],
            first: as_u32(first),
            lengths: as_u32(lengths),
        }
    }

    fn run(&self, q_out: &mut [f32], keys: &mut [f32], values: &mut [f32]) {
        let shape = &self.shape;
        let per_query = shape.heads * shape.head_width;
        let cached = shape.capacity * shape.key_heads * shape.head_width;
        let caches = keys
            .par_chunks_mut(cached)
            .zip(values.par_chunks_mut(cached));
        let samples = caches.enumerate().map(|(sample, caches)| (sample, caches));
        if per_query == 0 {
            samples.for_each(|(sample, (keys, values))| self.sample(sample, &mut [], keys, values));
            return;
        }
        let queries = q_out.par_chunks_mut(shape.time * per_query);
        samples
            .zip(queries)
            .for_each(|((sample, (keys, values)), q_out)| {
                self.sample(sample, q_out, keys, values);
            });
    }

    fn sample(&self, sample: usize, q_out: &mut [f32], keys: &mut [f32], values: &mut [f32]) {
        let shape = &self.shape;
        let (per_query, per_key) = (
            shape.heads * shape.head_width,
            shape.key_heads * shape.head_width,
        );
        let mut turns = vec![0.0; 2 * self.frequencies.len()];
        for t in 0..shape.time {
            let row = sample * shape.time + t;
            let place = self.first[sample].wrapping_add(t as u32);
            let (c, s) = turns.split_at_mut(self.frequencies.len());
            turn_of(place as f32, self.frequencies, self.push.scale, c, s);
            if per_query > 0 {
                let from = self.row(0, row, per_query);
                self.heads(0, from, (c, s), &mut q_out[t * per_query..][..per_query]);
            }
            if place >= self.lengths[sample].min(self.push.capacity) {
                continue;
            }
            let at = place as usize * per_key;
            let from = self.row(1, row, per_key);
            self.heads(1, from, (c, s), &mut keys[at..][..per_key]);
            values[at..][..per_key].copy_from_slice(self.row(2, row, per_key));
        }
    }

    /// The heads of a token: of queries, keys or values.
    fn row(&self, which: usize, row: usize, len: usize) -> &[f32] {
        let push = self.push;
        let [first, stride] = [
            [push.q_first, push.q_row],
            [push.k_first, push.k_row],
            [push.v_first, push.v_row],
        ][which];
        &self.operands[which][first as usize + row * stride as usize..][..len]
    }

    /// Norms and turns the heads of a token.
    fn heads(&self, which: usize, from: &[f32], (c, s): (&[f32], &[f32]), to: &mut [f32]) {
        let width = self.shape.head_width;
        let normed;
        let from = match self.weights {
            Some(weights) => {
                let mut heads = vec![0.0; from.len()];
                let mut stats = vec![0.0; from.len() / width];
                let gain = Gain {
                    weight: weights[which],
                    bias: None,
                };
                forward_rows(from, gain, self.push.eps, &mut heads, &mut stats);
                normed = heads;
                &normed
            }
            None => from,
        };
        for (from, to) in from.chunks(width).zip(to.chunks_mut(width)) {
            turn_head(from, c, s, to);
        }
    }
}
