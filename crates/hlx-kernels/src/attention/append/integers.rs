//! As [`append_heads`](super::append_heads), for attention over integers: what is written are the integers of the heads, queries
//! wide, keys and values narrow (`docs/numerics.md`), each once.

use bytemuck::cast_slice_mut;
use hlx_core::Device;
use rayon::prelude::*;

use super::{AppendInputs, AppendShape, GROUP_HEADS, Twin, turn_of};
use crate::KernelError;
use crate::attention::ranged::{Heads, IntegerHeads};
use crate::error::check_that;
use crate::kernel::{Kernel, PushConstants};
use crate::product::quantised::prepare_row;

shader!(integers_shader, attention::append_integers);

const NAME: &str = "append_integer_heads";

/// Writes the integers of the queries, overwriting `q_out`, and of the keys and values of the new tokens into the caches,
/// whose other places stay.
///
/// # Errors
/// If a buffer or operand has other sizes, or the launch fails.
pub fn append_integer_heads(
    device: &Device,
    inputs: &AppendInputs<'_>,
    q_out: &IntegerHeads,
    caches: [&IntegerHeads; 2],
    shape: &AppendShape,
) -> Result<(), KernelError> {
    shape.check_inputs(inputs)?;
    let of_queries = [shape.batch, shape.heads, shape.time, shape.head_width];
    let of_keys = [
        shape.batch,
        shape.key_heads,
        shape.capacity,
        shape.head_width,
    ];
    for (name, heads, planes, expected) in [
        ("q_out", q_out, 2, of_queries),
        ("the cache of keys", caches[0], 1, of_keys),
        ("the cache of values", caches[1], 1, of_keys),
    ] {
        let fits = heads.of.extents() == expected && heads.of.planes() == planes;
        check_that(NAME, fits, || {
            format!(
                "{name} has {:?}, expected {expected:?} in {planes} planes",
                heads.of
            )
        })?;
    }
    let lines = shape.rows() * (shape.heads + 2 * shape.key_heads);
    if lines == 0 {
        return Ok(());
    }
    let push = shape.push(inputs);
    let constants = [(0, u32::from(inputs.norms.is_some()))];
    let kernel = Kernel::new(NAME, &integers_shader::SHADER).constants(&constants);
    let kernel = inputs
        .read_by(kernel, shape)
        .writes([&q_out.words])
        .updates(caches.map(|cache| &cache.words));
    let (block, groups) = (PushConstants::of(&push), lines.div_ceil(GROUP_HEADS));
    let (shape, is_normed) = (*shape, inputs.norms.is_some());
    let of = [q_out.of, caches[0].of, caches[1].of];
    kernel.launch::<8, 3>(device, block, groups, move |read, outputs| {
        let twin = Twin::new(shape, &push, is_normed, read);
        let rows = (0..shape.rows()).into_par_iter();
        let rows: Vec<_> = rows.map(|row| twin.integers(row, &of)).collect();
        for (which, words) in outputs.into_iter().enumerate() {
            for row in &rows {
                row[which].put(&of[which], words);
            }
        }
    })
}

/// The integers of a token's heads, of one kind.
struct TokenHeads {
    sample: usize,
    position: usize,
    /// Not one of padding, which is not written.
    is_written: bool,
    /// \[planes, heads, padded\].
    digits: Vec<i8>,
    exponents: Vec<i32>,
}

impl TokenHeads {
    fn put(&self, of: &Heads, words: &mut [f32]) {
        if !self.is_written {
            return;
        }
        let (digits, exponents) = words.split_at_mut(of.digit_words());
        let (digits, exponents): (&mut [i8], &mut [i32]) =
            (cast_slice_mut(digits), cast_slice_mut(exponents));
        let (padded, heads) = (of.padded(), self.exponents.len());
        for (head, exponent) in self.exponents.iter().enumerate() {
            let row = of.row(self.sample, head, self.position);
            exponents[row] = *exponent;
            for plane in 0..of.planes() {
                let from = &self.digits[(plane * heads + head) * padded..][..padded];
                digits[(plane * of.rows() + row) * padded..][..padded].copy_from_slice(from);
            }
        }
    }
}

impl Twin<'_> {
    /// Of queries, keys and values of a token.
    fn integers(&self, row: usize, of: &[Heads; 3]) -> [TokenHeads; 3] {
        let shape = &self.shape;
        let (sample, time) = (row / shape.time, row % shape.time);
        let place = self.first[sample].wrapping_add(time as u32);
        let is_kept = place < self.lengths[sample].min(self.push.capacity);
        let mut turns = vec![0.0; 2 * self.frequencies.len()];
        let (c, s) = turns.split_at_mut(self.frequencies.len());
        turn_of(place as f32, self.frequencies, self.push.scale, c, s);
        let prepared = |which: usize, n_heads: usize| {
            let from = self.row(which, row, n_heads * shape.head_width);
            let mut values = from.to_vec();
            if which < 2 {
                self.heads(which, from, (c, s), &mut values);
            }
            let is_query = which == 0;
            let position = if is_query { time } else { place as usize };
            let mut heads = integers_of(&values, &of[which]);
            (heads.sample, heads.position, heads.is_written) =
                (sample, position, is_query || is_kept);
            heads
        };
        [(0, shape.heads), (1, shape.key_heads), (2, shape.key_heads)]
            .map(|(which, n_heads)| prepared(which, n_heads))
    }
}

/// The integers of heads, \[heads, D\].
fn integers_of(values: &[f32], of: &Heads) -> TokenHeads {
    let (padded, width, wide) = (of.padded(), of.extents()[3], of.planes() == 2);
    let n = values.len() / width;
    let mut lower = vec![0; n * padded];
    let mut upper = vec![0; if wide { n * padded } else { 0 }];
    let mut exponents = Vec::with_capacity(n);
    for (head, x) in values.chunks_exact(width).enumerate() {
        let upper = upper.get_mut(head * padded..(head + 1) * padded);
        let lower = &mut lower[head * padded..][..padded];
        exponents.push(prepare_row(x, upper.unwrap_or_default(), lower));
    }
    upper.extend_from_slice(&lower);
    TokenHeads {
        sample: 0,
        position: 0,
        is_written: false,
        digits: upper,
        exponents,
    }
}
