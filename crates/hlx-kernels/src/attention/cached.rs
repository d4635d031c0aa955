//! The keys and values of sequences that are being generated, in the memory that all their tokens will need: numbers, or in the
//! `integer` arithmetic what attention reads instead, a byte a number.

use hlx_core::{Buffer, Device};

use super::append::{AppendInputs, append_heads, append_integer_heads};
use super::entry::PreparedAttention;
use super::heads::{Heads, QuantisedHeads};
use super::operands::AttentionOperands;
use super::plan::Schedule;
use super::quantised::integer_attention_of_cache;
use super::ranges::Limits;
use super::sizes::Attention;
use crate::elementwise::{assign_strided, fill};
use crate::indexing::index_select;
use crate::product::quantised::Digits;
use crate::product::{check_arithmetic, of_floats, quantises};
use crate::{Layout, Operand, Result};

const NAME: &str = "key/value cache";

/// The keys and values of a layer, `[B, S, G, D]` each.
#[derive(Clone, Debug)]
pub struct CachedHeads {
    stored: Stored,
    extents: [usize; 4],
}

/// Keys, and values.
#[derive(Clone, Debug)]
enum Stored {
    Floats([Buffer; 2]),
    Quantised([QuantisedHeads; 2]),
}

impl CachedHeads {
    /// Allocates the memory of `batch` sequences of `capacity` positions, for passes in the device's arithmetic.
    ///
    /// # Errors
    /// If there is no memory, or a head has no columns or more than 256.
    pub fn new(
        device: &Device,
        [batch, capacity]: [usize; 2],
        [heads, width]: [usize; 2],
    ) -> Result<Self> {
        let extents = [batch, capacity, heads, width];
        let stored = match quantises(device) {
            false => {
                let zeros = || -> Result<Buffer> {
                    let new = device.alloc_shape(&extents)?;
                    fill(device, 0.0, &new)?;
                    Ok(new)
                };
                Stored::Floats([zeros()?, zeros()?])
            }
            true => {
                let zeros = || QuantisedHeads::of_keys(device, [batch, capacity], [heads, width]);
                Stored::Quantised([zeros()?, zeros()?])
            }
        };
        Ok(Self { stored, extents })
    }

    /// Sequences, positions of each, heads, and columns of a head.
    pub fn extents(&self) -> [usize; 4] {
        self.extents
    }

    /// The memory of the keys.
    pub fn memory(&self) -> &Buffer {
        match &self.stored {
            Stored::Floats([keys, _]) => keys,
            Stored::Quantised([keys, _]) => &keys.words,
        }
    }

    /// Copies the sequences with these numbers, u32 `[n]`, each below the number of sequences.
    ///
    /// # Errors
    /// If there is no memory.
    pub fn select(&self, device: &Device, sequences: &Buffer) -> Result<Self> {
        let [batch, rest @ ..] = self.extents;
        let n = sequences.len();
        let stored = match &self.stored {
            Stored::Floats(both) => {
                let per_sequence = rest.iter().product();
                let selected = |from| rows(device, from, 0, [batch, per_sequence], sequences);
                Stored::Floats([selected(&both[0])?, selected(&both[1])?])
            }
            Stored::Quantised(both) => {
                let selected = |from: &QuantisedHeads| -> Result<QuantisedHeads> {
                    let to = QuantisedHeads::empty(
                        device,
                        Heads {
                            batch: n,
                            ..from.of
                        },
                    )?;
                    let mut firsts = [0; 2];
                    for per_sequence in from.of_sequence() {
                        let [first, to_first] = firsts;
                        let part = [batch, per_sequence];
                        let part = rows(device, &from.words, first, part, sequences)?;
                        put(device, &part, &to.words, to_first)?;
                        firsts = [first + batch * per_sequence, to_first + n * per_sequence];
                    }
                    Ok(to)
                };
                Stored::Quantised([selected(&both[0])?, selected(&both[1])?])
            }
        };
        let extents = [n, rest[0], rest[1], rest[2]];
        Ok(Self { stored, extents })
    }

    /// The first `n` sequences, in the same memory. `None` for a quantised cache: the words of its first sequences do
    /// not lie side by side.
    ///
    /// # Errors
    /// If there are fewer sequences.
    pub fn front(&self, n: usize) -> Result<Option<Self>> {
        let [batch, rest @ ..] = self.extents;
        check_that!(NAME, n <= batch => "the first {n} sequences of {batch}")?;
        let Stored::Floats(both) = &self.stored else {
            return Ok(None);
        };
        let len = n * rest.iter().product::<usize>();
        let [keys, values] = both;
        let stored = Stored::Floats([keys.slice(0, len)?, values.slice(0, len)?]);
        let extents = [n, rest[0], rest[1], rest[2]];
        Ok(Some(Self { stored, extents }))
    }

    /// Copies the first `positions` positions of a sequence of another cache over those of sequence `to`: of a quantised
    /// cache all of them.
    ///
    /// # Errors
    /// If a cache does not have the sequence or the positions, or the caches have other extents or are one.
    pub fn copy_sequence(
        &self,
        device: &Device,
        to: usize,
        (from, sequence): (&Self, usize),
        positions: usize,
    ) -> Result<()> {
        let ([batch, of_one @ ..], [of_batch, of_other @ ..]) = (self.extents, from.extents);
        check_that!(NAME, of_one == of_other =>
            "sequences of {of_other:?} are copied to one of {of_one:?}")?;
        let fits = to < batch && sequence < of_batch && positions <= of_one[0];
        check_that!(NAME, fits =>
            "{positions} positions of sequence {sequence} of {of_batch} are copied to sequence {to} of {batch}")?;
        match (&self.stored, &from.stored) {
            (Stored::Floats(to_both), Stored::Floats(from_both)) => {
                let per_sequence = of_one.iter().product::<usize>();
                let len = positions * of_one[1] * of_one[2];
                for (to_one, from_one) in to_both.iter().zip(from_both) {
                    let firsts = [sequence * per_sequence, to * per_sequence];
                    copy(device, [from_one, to_one], firsts, len)?;
                }
                Ok(())
            }
            (Stored::Quantised(to_both), Stored::Quantised(from_both)) => {
                for (to_one, from_one) in to_both.iter().zip(from_both) {
                    let mut firsts = [0; 2];
                    for len in from_one.of_sequence() {
                        let at = [firsts[0] + sequence * len, firsts[1] + to * len];
                        copy(device, [&from_one.words, &to_one.words], at, len)?;
                        firsts = [firsts[0] + of_batch * len, firsts[1] + batch * len];
                    }
                }
                Ok(())
            }
            _ => check_that!(NAME, false => "one of the caches is quantised, and the other is not"),
        }
    }

    /// Appends the keys and values of new tokens, and returns what the new queries attend to, `[B, T, H, D]`. Every query's
    /// document begins at key 0.
    ///
    /// `query_ranges`: what [`query_ranges`](super::query_ranges) wrote of `new`'s lengths and first positions;
    /// `counter`: where weights are dropped two words, `[step, first sample]`; `attention`: with `B`, `S`, `G` and `D` of
    /// the cache.
    ///
    /// # Errors
    /// As [`append_heads`] and [`PreparedAttention`]; if the device's arithmetic is another
    /// one than that of the cache, and for a quantised cache if weights are dropped.
    pub fn attend(
        &self,
        device: &Device,
        new: &AppendInputs<'_>,
        query_ranges: &Buffer,
        counter: Option<&Buffer>,
        attention: &Attention,
    ) -> Result<Buffer> {
        let [of_queries, of_keys] = attention.shapes();
        check_that!(NAME, of_keys == self.extents =>
            "keys are {:?}, expected {of_keys:?}", self.extents)?;
        match &self.stored {
            Stored::Floats(both) => {
                check_arithmetic("attention", "k", [&of_floats(device), device])?;
                attend_floats(device, both, new, query_ranges, counter, attention)
            }
            Stored::Quantised([keys, values]) => {
                let fits = quantises(device) && attention.dropout.is_none();
                check_that!(NAME, fits =>
                    "keys and values are integers, expected a pass in `integer` that drops nothing")?;
                let q = Heads::of_queries(attention, Digits::Two);
                let q = QuantisedHeads::empty(device, q)?;
                append_integer_heads(device, new, &q, [keys, values], attention)?;
                let o = device.alloc_shape(&of_queries)?;
                let operands = [&q, keys, values];
                integer_attention_of_cache(device, operands, query_ranges, &o, attention)?;
                Ok(o)
            }
        }
    }
}

fn attend_floats(
    device: &Device,
    both: &[Buffer; 2],
    new: &AppendInputs<'_>,
    query_ranges: &Buffer,
    counter: Option<&Buffer>,
    attention: &Attention,
) -> Result<Buffer> {
    let [of_queries, of_keys] = &attention.layouts()?;
    let q = device.alloc(of_queries.n_elements())?;
    append_heads(device, new, &q, both.each_ref(), attention)?;
    for cache in both {
        device.note_change(cache, 0..cache.len(), false);
    }
    let [keys, values] = both;
    let operands = AttentionOperands {
        heads: [
            Operand::new(&q, of_queries),
            Operand::new(keys, of_keys),
            Operand::new(values, of_keys),
        ],
        packed: None,
        limits: Limits {
            documents: None,
            lengths: Some(new.lengths),
            first_positions: Some(new.first_positions),
        },
        counter,
    };
    let schedule = Schedule::of(device, &operands, attention);
    let ranges = Some(query_ranges);
    let prepared = PreparedAttention::by(schedule, device, &operands, ranges, attention, false)?;
    let [o, _] = prepared.forward(device, &operands)?;
    Ok(o)
}

/// The rows with these numbers, of `[rows, columns]` that begin at an element.
fn rows(
    device: &Device,
    from: &Buffer,
    first: usize,
    extents: [usize; 2],
    numbers: &Buffer,
) -> Result<Buffer> {
    let out = device.alloc_shape_typed(from.dtype(), &[numbers.len(), extents[1]])?;
    let layout = Layout::contiguous(&extents)?.starting_at(first);
    let of_numbers = Layout::contiguous(&[numbers.len()])?;
    let [x, index] = [
        Operand::new(from, &layout),
        Operand::new(numbers, &of_numbers),
    ];
    index_select(device, x, 0, index, &out, None)?;
    Ok(out)
}

/// Copies elements from where they begin to where they begin in another buffer.
fn copy(
    device: &Device,
    [from, to]: [&Buffer; 2],
    [first, to_first]: [usize; 2],
    len: usize,
) -> Result<()> {
    check_that!(NAME, !from.overlaps(to) => "a sequence is copied within a cache")?;
    let layout = Layout::contiguous(&[len])?;
    let layouts = [
        layout.clone().starting_at(first),
        layout.starting_at(to_first),
    ];
    let [source, target] = [
        Operand::new(from, &layouts[0]),
        Operand::new(to, &layouts[1]),
    ];
    assign_strided(device, source, target)?;
    device.note_change(to, to_first..to_first + len, false);
    Ok(())
}

/// Copies elements to where they begin in another buffer.
fn put(device: &Device, from: &Buffer, to: &Buffer, first: usize) -> Result<()> {
    let layout = Layout::contiguous(&[from.len()])?;
    let target = layout.starting_at(first);
    let [from, to] = [(from, &layout), (to, &target)].map(|(x, at)| Operand::new(x, at));
    assign_strided(device, from, to)
}
