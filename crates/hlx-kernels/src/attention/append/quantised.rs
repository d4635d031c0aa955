//! As [`append_heads`](super::append_heads), for attention of quantised operands: what is written are the
//! quantised heads, queries with two digits, keys and values with one (`docs/numerics.md`), each once.

use bytemuck::cast_slice_mut;
use hlx_core::Device;

use super::{Append, AppendInputs, groups};
use crate::Result;
use crate::attention::heads::{Heads, QuantisedHeads};
use crate::attention::sizes::Attention;
use crate::kernel::PushConstants;
use crate::product::quantised::{Digits, prepare_row};

shader!(shader, attention::append_integers);

/// Writes the quantised queries, overwriting `q_out`, and the quantised keys and values of the new tokens into the
/// caches, whose other places stay.
///
/// # Errors
/// If a buffer or operand has other sizes, or the launch fails.
pub fn append_integer_heads(
    device: &Device,
    inputs: &AppendInputs<'_>,
    q_out: &QuantisedHeads,
    [keys, values]: [&QuantisedHeads; 2],
    of: &Attention,
) -> Result<()> {
    const NAME: &str = "append_integer_heads";
    let append = Append {
        name: NAME,
        inputs,
        of,
    };
    append.check()?;
    let of_keys = Heads::of_cache(of, inputs.pages.as_ref());
    let expected = [Heads::of_queries(of, Digits::Two), of_keys, of_keys];
    let names = ["q_out", "the cache of keys", "the cache of values"];
    for ((name, heads), expected) in names.iter().zip([q_out, keys, values]).zip(expected) {
        check_that!(NAME, heads.of == expected =>
            "{name} has {:?}, expected {expected:?}", heads.of)?;
    }
    let kernel = append
        .kernel(&shader::SHADER)?
        .writes([&q_out.words])
        .updates([&keys.words, &values.words])
        .reads_if(inputs.pages.map(|pages| pages.table));
    if groups(of) == 0 {
        return Ok(());
    }
    let twin = append.twin();
    let block = PushConstants::of(&twin.push);
    kernel.launch::<9, 3>(device, block, groups(of), move |read, mut outputs| {
        let rows = twin.tokens(read, |token| {
            let heads = [0, 1, 2].map(|i| expected[i].quantised(&token.heads[i]));
            (token, heads)
        });
        for (token, heads) in &rows {
            let places = [Some([token.sample, token.time]), token.cached, token.cached];
            for (i, words) in outputs.iter_mut().enumerate() {
                if let Some(place) = places[i] {
                    expected[i].put(&heads[i], place, words);
                }
            }
        }
    })
}

/// The digits, \[planes, heads, padded\], and the exponents of a token's heads.
type TokenHeads = (Vec<i8>, Vec<i32>);

impl Heads {
    /// The quantised form of a token's heads, \[heads, D\].
    fn quantised(&self, values: &[f32]) -> TokenHeads {
        let padded = self.padded();
        let plane = self.heads * padded;
        let mut digits = vec![0; self.n_digits.planes() * plane];
        let (upper, lower) = digits.split_at_mut((self.n_digits.planes() - 1) * plane);
        let rows = values.chunks_exact(self.head_width);
        let exponents = rows.enumerate().map(|(head, x)| {
            let upper = upper.get_mut(head * padded..(head + 1) * padded);
            let lower = &mut lower[head * padded..][..padded];
            prepare_row(x, upper.unwrap_or_default(), lower)
        });
        let exponents = exponents.collect();
        (digits, exponents)
    }

    /// Writes them to a position of a sequence.
    fn put(&self, from: &TokenHeads, [sample, position]: [usize; 2], words: &mut [f32]) {
        let (digits, exponents) = words.split_at_mut(self.digit_words());
        let (digits, exponents): (&mut [i8], &mut [i32]) =
            (cast_slice_mut(digits), cast_slice_mut(exponents));
        let padded = self.padded();
        for (head, exponent) in from.1.iter().enumerate() {
            let row = self.row(sample, head, position);
            exponents[row] = *exponent;
            for plane in 0..self.n_digits.planes() {
                let from = &from.0[(plane * self.heads + head) * padded..][..padded];
                digits[(plane * self.rows() + row) * padded..][..padded].copy_from_slice(from);
            }
        }
    }
}
