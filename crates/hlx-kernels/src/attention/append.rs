//! New tokens on their way into attention with a cache, in one launch: heads of queries and keys are normed
//! and rotated where they are to be, and keys and values are written behind those that the cache holds.
//!
//! Token `t` of sample `b` has the place `p = first_positions[b] + t`; with `p >= lengths[b]` it is padding,
//! and the cache stays. A head `x` of a query or a key becomes `rope(rms_norm(x))`: the functions of
//! [`norm`](crate::norm) over the head's width and of [`rope`](crate::rope) at position `p`, with
//! their bits, each where it is given. Values are copied.
//!
//! Shapes: rows of `q` `[H, D]`, of `k` and `v` `[G, D]`, one for each of the `B T` tokens, by row strides;
//! `q_out` `[B, T, H, D]`; the caches `[B, S, G, D]`.

use hlx_core::{Buffer, Device, Shader, as_u32, sizes};

use super::pages::{self, PAGE, Pages, Table};
use super::sizes::Attention;
use crate::Result;
use crate::error::{check_indexable, check_sizes, check_that};
use crate::kernel::{Kernel, PushConstants};
use crate::norm::{Gain, forward_rows};
use crate::parallel;
use crate::rope::{rotate_head, rotations_at};

mod quantised;
#[cfg(test)]
mod tests;

pub use quantised::append_integer_heads;

shader!(shader, attention::append);
use shader::Push;

/// Heads of a workgroup.
const GROUP_HEADS: usize = 8;

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

/// The rotation of the heads of queries and keys.
#[derive(Clone, Copy, Debug)]
pub struct HeadRotation<'a> {
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
    /// The rotation, if heads are rotated.
    pub rotation: Option<HeadRotation<'a>>,
    /// `[B]`: the place of each sequence's first token.
    pub first_positions: &'a Buffer,
    /// `[B]`: the tokens of each sequence, the new ones included.
    pub lengths: &'a Buffer,
    /// Where the caches lie in pages: then they are `[pages, 32, G, D]`.
    pub pages: Option<Pages<'a>>,
}

/// What all kernels that append take; `of` has as many queries as there are tokens a sequence, its keys are the
/// places of a sequence in the cache, and its heads may be none if keys and values alone are appended.
struct Append<'a> {
    name: &'static str,
    inputs: &'a AppendInputs<'a>,
    of: &'a Attention,
}

impl<'a> Append<'a> {
    fn check(&self) -> Result<()> {
        let Self { name, inputs, of } = *self;
        let width = of.head_width;
        let [per_query, per_key] = [of.heads, of.key_heads];
        for (positions, heads) in [
            (of.queries, per_query),
            (of.queries, per_key),
            (of.keys, per_key),
        ] {
            check_sizes(name, &[of.batch, positions, heads, width])?;
        }
        for (rows_name, rows, heads) in [
            ("q", &inputs.q, per_query),
            ("k", &inputs.k, per_key),
            ("v", &inputs.v, per_key),
        ] {
            let last = sizes::checked_product([tokens(of).saturating_sub(1), rows.stride]);
            let end = last.and_then(|last| sizes::checked_sum([rows.first, last, heads * width]));
            let fits = end.is_some_and(|end| end <= rows.buffer.len());
            check_that(name, heads == 0 || fits, || {
                let len = rows.buffer.len();
                match end {
                    Some(end) => format!("{rows_name} ends at element {end} of {len}"),
                    None => {
                        format!("{rows_name} ends past all memory, its buffer has {len} elements")
                    }
                }
            })?;
        }
        let pairs = inputs
            .rotation
            .map_or(0, |rotation| rotation.frequencies.len());
        let rotated = 2 * pairs;
        check_that!(name, rotated <= width =>
            "{pairs} frequencies rotate {rotated} elements, and a head has {width}")?;
        if let Some(pages) = &inputs.pages {
            pages.check(name, of)?;
        }
        let cached = self.cached_positions() * per_key * width;
        let largest = [&inputs.q, &inputs.k, &inputs.v].map(|rows| rows.buffer.len());
        let largest = largest.into_iter().fold(cached, usize::max);
        check_indexable(name, "an operand", largest)
    }

    /// Positions of a cache.
    fn cached_positions(&self) -> usize {
        let contiguous = self.of.batch * self.of.keys;
        self.inputs.pages.map_or(contiguous, |pages| pages.n * PAGE)
    }

    fn push(&self) -> Push {
        let (inputs, of) = (self.inputs, self.of);
        let [q, k, v] = [&inputs.q, &inputs.k, &inputs.v];
        block!(Push =>
            rows: tokens(of), time: of.queries, heads: of.heads, key_heads: of.key_heads,
            width: of.head_width, capacity: of.keys,
            pairs: inputs.rotation.map_or(0, |rotation| rotation.frequencies.len()),
            q_first: q.first, q_row: q.stride, k_first: k.first, k_row: k.stride,
            v_first: v.first, v_row: v.stride,
            eps: inputs.norms.map_or(0.0, |norms| norms.eps),
            scale: inputs.rotation.map_or(1.0, |rotation| rotation.scale),
            pool_pages: inputs.pages.map_or(0, |pages| pages.n))
    }

    fn twin(&self) -> Twin {
        Twin {
            of: *self.of,
            push: self.push(),
            is_normed: self.inputs.norms.is_some(),
            is_paged: self.inputs.pages.is_some(),
        }
    }

    /// The kernel with the buffers that it reads.
    fn kernel(&self, shader: &'static Shader) -> Result<Kernel<'a>> {
        let (inputs, of) = (self.inputs, self.of);
        let [q_weight, k_weight] = [0, 1].map(|i| inputs.norms.map(|norms| norms.weights[i]));
        Kernel::new(self.name, shader)
            .constants(constants!(0: inputs.norms.is_some()))
            .constants(pages::constants(inputs.pages.as_ref()))
            .reads_if((of.heads > 0).then_some(inputs.q.buffer))
            .reads([inputs.k.buffer, inputs.v.buffer])
            .read_if("the norm of queries", q_weight, of.head_width)?
            .read_if("the norm of keys", k_weight, of.head_width)?
            .reads_if(inputs.rotation.map(|rotation| rotation.frequencies))
            .read("first_positions", inputs.first_positions, of.batch)?
            .read("lengths", inputs.lengths, of.batch)
    }
}

/// New tokens of all sequences.
fn tokens(of: &Attention) -> usize {
    of.batch * of.queries
}

/// Workgroups of all heads.
fn groups(of: &Attention) -> usize {
    (tokens(of) * (of.heads + 2 * of.key_heads)).div_ceil(GROUP_HEADS)
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
    [keys, values]: [&Buffer; 2],
    of: &Attention,
) -> Result<()> {
    let append = Append {
        name: "append_heads",
        inputs,
        of,
    };
    append.check()?;
    let (of, width) = (*of, of.head_width);
    let cached = [append.cached_positions(), of.key_heads, width];
    let kernel = append
        .kernel(&shader::SHADER)?
        .write("q_out", q_out, [of.batch, of.queries, of.heads, width])?
        .update("the cache of keys", keys, cached)?
        .update("the cache of values", values, cached)?
        .reads_if(inputs.pages.map(|pages| pages.table));
    if groups(&of) * width == 0 {
        return Ok(());
    }
    let (twin, groups) = (append.twin(), groups(&of));
    let positions = inputs.pages.map_or(of.keys, |_| PAGE);
    let block = PushConstants::of(&twin.push);
    kernel.launch(device, block, groups, move |read, [q_out, keys, values]| {
        let [per_query, per_key] = [of.heads, of.key_heads].map(|heads| heads * width);
        let all = twin.tokens(read, |token| token);
        for (row, token) in all.iter().enumerate() {
            let [q, k, v] = &token.heads;
            q_out[row * per_query..][..per_query].copy_from_slice(q);
            if let Some([sequence, place]) = token.cached {
                let at = (sequence * positions + place) * per_key;
                keys[at..][..per_key].copy_from_slice(k);
                values[at..][..per_key].copy_from_slice(v);
            }
        }
    })
}

/// The CPU twin.
#[derive(Clone, Copy)]
struct Twin {
    of: Attention,
    push: Push,
    is_normed: bool,
    is_paged: bool,
}

/// q, k, v, the gains of q and k, frequencies, first positions, lengths and pages.
type Read<'a> = [&'a [f32]; 9];

/// A token's heads of queries, keys and values, and where.
struct Token {
    sample: usize,
    time: usize,
    /// The sequence of the cache, or its page, and the position there; none of padding.
    cached: Option<[usize; 2]>,
    heads: [Vec<f32>; 3],
}

impl Twin {
    /// What `then` makes of each token.
    fn tokens<T: Send>(&self, read: Read<'_>, then: impl Fn(Token) -> T + Sync) -> Vec<T> {
        parallel::map(tokens(&self.of), |row| then(self.token(row, read)))
    }

    fn token(&self, row: usize, read: Read<'_>) -> Token {
        let Self { of, push, .. } = self;
        let (sample, time) = (row / of.queries, row % of.queries);
        let [.., frequencies, first_positions, lengths, pages] = read;
        let pages = Table::new(pages, self.is_paged, of.keys);
        let frequencies = &frequencies[..push.pairs as usize];
        let place = as_u32(first_positions)[sample].wrapping_add(time as u32);
        let mut factors = vec![0.0; 2 * frequencies.len()];
        let (c, s) = factors.split_at_mut(frequencies.len());
        rotations_at(place as f32, frequencies, push.scale, c, s);
        let rows = [
            (push.q_first, push.q_row, of.heads),
            (push.k_first, push.k_row, of.key_heads),
            (push.v_first, push.v_row, of.key_heads),
        ];
        let heads = [0, 1, 2].map(|which| {
            let (first, stride, heads) = rows[which];
            let at = first as usize + row * stride as usize;
            let from = match heads {
                0 => &[],
                _ => &read[which][at..][..heads * of.head_width],
            };
            match which {
                2 => from.to_vec(),
                _ => self.heads(from, read[3 + which], [c, s]),
            }
        });
        let is_stored = place < as_u32(lengths)[sample].min(push.capacity);
        Token {
            sample,
            time,
            cached: is_stored.then(|| match pages {
                Some(pages) => pages.at(sample, place as usize),
                None => [sample, place as usize],
            }),
            heads,
        }
    }

    /// Norms and rotates the heads of a token.
    fn heads(&self, from: &[f32], weight: &[f32], [c, s]: [&[f32]; 2]) -> Vec<f32> {
        let width = self.of.head_width;
        let mut normed = from.to_vec();
        if self.is_normed {
            let mut stats = vec![0.0; from.len() / width];
            let gain = Gain { weight, bias: None };
            forward_rows(from, gain, self.push.eps, &mut normed, &mut stats);
        }
        let mut rotated = vec![0.0; from.len()];
        for (from, to) in normed.chunks(width).zip(rotated.chunks_mut(width)) {
            rotate_head(from, c, s, to);
        }
        rotated
    }
}
