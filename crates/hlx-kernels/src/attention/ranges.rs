//! Which keys a query sees and which queries see a key, as ranges.

use hlx_core::{Buffer, Device, as_u32};

use super::sizes::Attention;
use crate::Result;
use crate::kernel::{Kernel, PushConstants};

shader!(attention::{query_ranges as query_shader, key_ranges as key_shader});

use query_shader::Push;

/// Positions and windows are at most this and twice this, so that they add up without overflow.
const FARTHEST: u32 = 1 << 29;
const NO_WINDOW: u32 = 2 * FARTHEST;

/// What limits the keys that a query sees, besides `causal` and `window` of [`Attention`]: ids
/// on the device, so that a recorded pass can be replayed with others.
///
/// Of sample `b`: `len = min(lengths[b], S)` and `first = first_positions[b]`, or `S` and
/// `max(S - T, 0)` without them. Query `i` is at position `p = first + i`, and sees the keys `j` with
/// `j < len`; `j <= p` if causal; `p - window < j`, and `j < p + window` if not causal;
/// `documents[b, j] = documents[b, p]`. A causal query with `p >= len` is padding where lengths are
/// given, and sees nothing; so does one past `S` where documents are given.
#[derive(Clone, Copy, Debug, Default)]
pub struct Limits<'a> {
    /// `[B, S]`: of each position the first position of its document. Never decreases along a row.
    pub documents: Option<&'a Buffer>,
    /// `[B]`: how many keys are real.
    pub lengths: Option<&'a Buffer>,
    /// `[B]`: the position of the first query; at most 2^29.
    pub first_positions: Option<&'a Buffer>,
}

impl Limits<'_> {
    fn push(&self, of: &Attention) -> Push {
        let window = of.window.and_then(|window| u32::try_from(window).ok());
        block!(Push =>
            batch: of.batch, queries: of.queries, keys: of.keys, causal: of.causal,
            window: window.unwrap_or(NO_WINDOW).min(NO_WINDOW),
            has_documents: self.documents.is_some(), has_lengths: self.lengths.is_some(),
            has_first_positions: self.first_positions.is_some())
    }
}

/// Writes the range of keys that each query sees: `[B, T, 4]`, in words the first key of the query's
/// document, begin, end and the query's position. The range of a query that sees nothing is 0, 0.
///
/// # Errors
/// If a buffer has another length, a size is out of range, or the launch fails.
pub fn query_ranges(
    device: &Device,
    limits: &Limits<'_>,
    ranges: &Buffer,
    attention: &Attention,
) -> Result<()> {
    launch(device, limits, ranges, attention, false)
}

/// Writes the range of queries that see each key: `[B, S, 4]`, in words the first key of the key's
/// document, begin, end and the key. The range of a key that no query sees is 0, 0.
///
/// # Errors
/// As [`query_ranges`].
pub fn key_ranges(
    device: &Device,
    limits: &Limits<'_>,
    ranges: &Buffer,
    attention: &Attention,
) -> Result<()> {
    launch(device, limits, ranges, attention, true)
}

fn launch(
    device: &Device,
    limits: &Limits<'_>,
    ranges: &Buffer,
    attention: &Attention,
    of_keys: bool,
) -> Result<()> {
    let Attention { queries, keys, .. } = *attention;
    let (name, shader, per_sample) = match of_keys {
        false => ("attention_query_ranges", &query_shader::SHADER, queries),
        true => ("attention_key_ranges", &key_shader::SHADER, keys),
    };
    attention.check(name)?;
    let (batch, push) = (attention.batch, limits.push(attention));
    let (block, groups) = (PushConstants::of(&push), (batch * per_sample).div_ceil(64));
    Kernel::new(name, shader)
        .read_if("documents", limits.documents, [batch, attention.keys])?
        .read_if("lengths", limits.lengths, batch)?
        .read_if("first_positions", limits.first_positions, batch)?
        .write("ranges", ranges, [4, batch, per_sample])?
        .launch(device, block, groups, move |limits, [ranges]| {
            let rule = Rule::new(&push, limits);
            let ranges: &mut [[u32; 4]] = bytemuck::cast_slice_mut(ranges);
            for (at, range) in ranges.iter_mut().enumerate() {
                let (sample, position) = (at / per_sample, (at % per_sample) as u32);
                *range = match of_keys {
                    false => rule.of_query(sample, position),
                    true => rule.of_key(sample, position),
                };
            }
        })
}

/// The CPU twin of `shaders/attention/ranges.glsl`.
struct Rule<'a> {
    push: &'a Push,
    documents: Option<&'a [u32]>,
    lengths: Option<&'a [u32]>,
    first_positions: Option<&'a [u32]>,
}

impl<'a> Rule<'a> {
    fn new(push: &'a Push, [documents, lengths, first_positions]: [&'a [f32]; 3]) -> Self {
        let given = |flag: u32, words: &'a [f32]| (flag != 0).then(|| as_u32(words));
        Self {
            push,
            documents: given(push.has_documents, documents),
            lengths: given(push.has_lengths, lengths),
            first_positions: given(push.has_first_positions, first_positions),
        }
    }

    fn length(&self, sample: usize) -> u32 {
        let keys = self.push.keys;
        self.lengths
            .map_or(keys, |lengths| lengths[sample].min(keys))
    }

    fn first(&self, sample: usize) -> u32 {
        let last_positions = self.push.keys.saturating_sub(self.push.queries);
        self.first_positions
            .map_or(last_positions, |firsts| firsts[sample].min(FARTHEST))
    }

    /// The first and the end of the document that a position below `S` belongs to.
    fn document(&self, sample: usize, position: u32) -> (u32, u32) {
        let keys = self.push.keys;
        let Some(documents) = self.documents else {
            return (0, keys);
        };
        let starts = &documents[sample * keys as usize..][..keys as usize];
        // The first later position whose document begins after this one, as the shader searches.
        let (mut low, mut high) = (position + 1, keys);
        while low < high {
            let middle = u32::midpoint(low, high);
            match starts[middle as usize] > position {
                true => high = middle,
                false => low = middle + 1,
            }
        }
        (starts[position as usize].min(position), low)
    }

    fn of_query(&self, sample: usize, query: u32) -> [u32; 4] {
        let push = self.push;
        let (len, p) = (self.length(sample), self.first(sample) + query);
        let (first_key, document_end) = match self.documents {
            Some(_) if p >= push.keys => (0, 0),
            _ => self.document(sample, p),
        };
        let begin = first_key.max((p + 1).saturating_sub(push.window));
        let reach = if push.causal != 0 { 1 } else { push.window };
        let end = document_end.min(len).min(p + reach);
        let padding = push.causal != 0 && self.lengths.is_some() && p >= len;
        match padding || begin >= end {
            true => [first_key, 0, 0, p],
            false => [first_key, begin, end, p],
        }
    }

    fn of_key(&self, sample: usize, key: u32) -> [u32; 4] {
        let push = self.push;
        let (len, first) = (self.length(sample), self.first(sample));
        let (first_key, document_end) = self.document(sample, key);
        let (mut begin, mut end) = (0, key + push.window);
        if self.documents.is_some() {
            (begin, end) = (first_key, end.min(document_end));
        }
        if push.causal != 0 {
            begin = begin.max(key);
            if self.lengths.is_some() {
                end = end.min(len);
            }
        } else {
            begin = begin.max((key + 1).saturating_sub(push.window));
        }
        let begin = begin.saturating_sub(first);
        let end = end.saturating_sub(first).min(push.queries);
        match key >= len || begin >= end {
            true => [first_key, 0, 0, key],
            false => [first_key, begin, end, key],
        }
    }
}
