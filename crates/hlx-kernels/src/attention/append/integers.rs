//! As [`append_heads`](super::append_heads), for attention over integers: what is written are the integers of the heads, queries
//! wide, keys and values narrow (`docs/numerics.md`), each once.

use bytemuck::cast_slice_mut;
use hlx_core::Device;

use super::{AppendInputs, AppendShape, Twin};
use crate::KernelError;
use crate::attention::heads::{Heads, IntegerHeads};
use crate::error::check_that;
use crate::kernel::{Kernel, PushConstants};
use crate::parallel;
use crate::product::quantised::{Width, prepare_row};

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
    [keys, values]: [&IntegerHeads; 2],
    shape: &AppendShape,
) -> Result<(), KernelError> {
    shape.check(NAME, inputs)?;
    let (width, is_normed) = (shape.head_width, inputs.norms.is_some());
    let queries = [shape.batch, shape.time];
    let of_queries = Heads::new(queries, [shape.heads, width], Width::Wide);
    let places = [shape.batch, shape.capacity];
    let of_keys = Heads::new(places, [shape.key_heads, width], Width::Narrow);
    for (name, heads, expected) in [
        ("q_out", q_out, of_queries),
        ("the cache of keys", keys, of_keys),
        ("the cache of values", values, of_keys),
    ] {
        check_that(NAME, heads.of == expected, || {
            format!("{name} has {:?}, expected {expected:?}", heads.of)
        })?;
    }
    let constants = [(0, u32::from(is_normed))];
    let kernel = Kernel::new(NAME, &integers_shader::SHADER).constants(&constants);
    let kernel = inputs
        .read_by(kernel, shape)?
        .writes([&q_out.words])
        .updates([&keys.words, &values.words]);
    if shape.groups() == 0 {
        return Ok(());
    }
    let (push, shape, of) = (shape.push(inputs), *shape, [of_queries, of_keys, of_keys]);
    let (block, groups) = (PushConstants::of(&push), shape.groups());
    kernel.launch::<8, 3>(device, block, groups, move |read, mut outputs| {
        let twin = Twin::new(shape, &push, is_normed, read);
        let rows = parallel::map(shape.rows(), |row| {
            let token = twin.token(row);
            let integers = [0, 1, 2].map(|which| of[which].integers(&token.heads[which]));
            (token, integers)
        });
        for (token, integers) in &rows {
            for (which, words) in outputs.iter_mut().enumerate() {
                let position = if which == 0 {
                    Some(token.time)
                } else {
                    token.cached
                };
                if let Some(position) = position {
                    of[which].put(&integers[which], token.sample, position, words);
                }
            }
        }
    })
}

/// The digits, \[planes, heads, padded\], and the exponents of a token's heads.
type TokenHeads = (Vec<i8>, Vec<i32>);

impl Heads {
    /// The integers of a token's heads, \[heads, D\].
    fn integers(&self, values: &[f32]) -> TokenHeads {
        let padded = self.padded();
        let plane = self.heads * padded;
        let mut digits = vec![0; self.width.planes() * plane];
        let (upper, lower) = digits.split_at_mut((self.width.planes() - 1) * plane);
        let rows = values.chunks_exact(self.head_width);
        let exponents = rows.enumerate().map(|(head, x)| {
            let upper = upper.get_mut(head * padded..(head + 1) * padded);
            let lower = &mut lower[head * padded..][..padded];
            prepare_row(x, upper.unwrap_or_default(), lower)
        });
        let exponents = exponents.collect();
        (digits, exponents)
    }

    /// Writes them to a position.
    fn put(&self, from: &TokenHeads, sample: usize, position: usize, words: &mut [f32]) {
        let (digits, exponents) = words.split_at_mut(self.digit_words());
        let (digits, exponents): (&mut [i8], &mut [i32]) =
            (cast_slice_mut(digits), cast_slice_mut(exponents));
        let padded = self.padded();
        for (head, exponent) in from.1.iter().enumerate() {
            let row = self.row(sample, head, position);
            exponents[row] = *exponent;
            for plane in 0..self.width.planes() {
                let from = &from.0[(plane * self.heads + head) * padded..][..padded];
                digits[(plane * self.rows() + row) * padded..][..padded].copy_from_slice(from);
            }
        }
    }
}
