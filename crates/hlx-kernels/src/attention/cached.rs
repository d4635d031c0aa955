//! The keys and values of sequences that are being generated, in the pages of a pool: numbers, or in the `integer` arithmetic
//! what attention reads instead, a byte a number.

use hlx_core::{Buffer, Device};

use super::append::{AppendInputs, append_heads, append_integer_heads};
use super::entry::PreparedAttention;
use super::few;
use super::heads::{Heads, QuantisedHeads};
use super::operands::AttentionOperands;
use super::pages::{PAGE, Pages};
use super::plan::{Schedule, is_of_few_queries, key_heads_of_forward};
use super::quantised::integer_attention_of_cache;
use super::ranges::Limits;
use super::rows::{Kind, RowOperands};
use super::sizes::Attention;
use crate::elementwise::{assign_strided, fill};
use crate::indexing::index_select;
use crate::product::quantised::Digits;
use crate::product::{check_arithmetic, of_floats, quantises};
use crate::{KernelError, Layout, Operand, Result};

const NAME: &str = "key/value cache";

/// The keys and values of a layer in a pool of pages, `[pages, 32, G, D]` each.
#[derive(Clone, Debug)]
pub struct CachedHeads {
    stored: Stored,
    n_pages: usize,
    heads: [usize; 2],
}

/// Keys, and values.
#[derive(Clone, Debug)]
enum Stored {
    Floats([Buffer; 2]),
    Quantised([QuantisedHeads; 2]),
}

impl CachedHeads {
    /// Allocates the memory of `n_pages` pages of 32 positions, of `[heads, columns]`, for passes in the device's arithmetic.
    ///
    /// # Errors
    /// If there is no memory, or a head has no columns or more than 256.
    pub fn new(device: &Device, n_pages: usize, heads: [usize; 2]) -> Result<Self> {
        let stored = match quantises(device) {
            false => {
                let zeros = || -> Result<Buffer> {
                    let new = device.alloc_shape(&[n_pages, PAGE, heads[0], heads[1]])?;
                    fill(device, 0.0, &new)?;
                    Ok(new)
                };
                Stored::Floats([zeros()?, zeros()?])
            }
            true => {
                let zeros = || QuantisedHeads::of_keys(device, [n_pages, PAGE], heads);
                Stored::Quantised([zeros()?, zeros()?])
            }
        };
        Ok(Self {
            stored,
            n_pages,
            heads,
        })
    }

    /// The bytes of a page of a pool that [`CachedHeads::new`] makes.
    pub fn page_bytes(device: &Device, heads: [usize; 2]) -> u64 {
        let [heads, width] = heads;
        let of_row = match quantises(device) {
            false => 4 * width,
            true => Heads::new([1, PAGE], [1, width], Digits::One).padded() + 4,
        };
        (2 * PAGE * heads * of_row) as u64
    }

    /// The pages of the pool.
    pub fn n_pages(&self) -> usize {
        self.n_pages
    }

    /// Heads, and columns of a head.
    pub fn heads(&self) -> [usize; 2] {
        self.heads
    }

    /// The memory of the keys.
    pub fn memory(&self) -> &Buffer {
        match &self.stored {
            Stored::Floats([keys, _]) => keys,
            Stored::Quantised([keys, _]) => &keys.words,
        }
    }

    /// Copies the pages with these numbers, u32 `[n]`, each below the number of pages, to a pool of as many.
    ///
    /// # Errors
    /// If there is no memory.
    pub fn select(&self, device: &Device, pages: &Buffer) -> Result<Self> {
        let (n, [heads, width]) = (pages.len(), self.heads);
        let stored = match &self.stored {
            Stored::Floats(both) => {
                let extents = [self.n_pages, PAGE * heads * width];
                let selected = |from| rows(device, from, 0, extents, pages);
                Stored::Floats([selected(&both[0])?, selected(&both[1])?])
            }
            Stored::Quantised(both) => {
                let selected = |from: &QuantisedHeads| -> Result<QuantisedHeads> {
                    let of = Heads {
                        batch: n,
                        ..from.of
                    };
                    let to = QuantisedHeads::empty(device, of)?;
                    let mut firsts = [0; 2];
                    for per_page in from.of_sequence() {
                        let [first, to_first] = firsts;
                        let part = [self.n_pages, per_page];
                        let part = rows(device, &from.words, first, part, pages)?;
                        put(device, &part, &to.words, to_first)?;
                        firsts = [first + self.n_pages * per_page, to_first + n * per_page];
                    }
                    Ok(to)
                };
                Stored::Quantised([selected(&both[0])?, selected(&both[1])?])
            }
        };
        Ok(Self {
            stored,
            n_pages: n,
            heads: self.heads,
        })
    }

    /// Appends the keys and values of new tokens, and returns what the new queries attend to, `[B, T, H, D]`. Every query's
    /// document begins at key 0. No page is of two sequences, except for those that no new token is written to.
    ///
    /// `query_ranges`: what [`query_ranges`](super::query_ranges) wrote of `new`'s lengths and first positions;
    /// `counter`: where weights are dropped two words, `[step, first sample]`; `attention`: with `G` and `D` of
    /// the cache, and the positions of the table of `new` as `S`.
    ///
    /// # Errors
    /// As [`append_heads`] and [`PreparedAttention`]; if there is no table, or one of a pool of another size; if the device's
    /// arithmetic is another one than that of the cache, and for a quantised cache if weights are dropped.
    pub fn attend(
        &self,
        device: &Device,
        new: &AppendInputs<'_>,
        query_ranges: &Buffer,
        counter: Option<&Buffer>,
        attention: &Attention,
    ) -> Result<Buffer> {
        let found = [attention.key_heads, attention.head_width];
        check_that!(NAME, found == self.heads =>
            "heads are {:?}, expected {found:?}", self.heads)?;
        let pages = new.pages.as_ref().filter(|pages| pages.n == self.n_pages);
        let Some(pages) = pages else {
            let found = new.pages.map_or(0, |pages| pages.n);
            let reason = format!("the table is of {found} pages, expected {}", self.n_pages);
            return Err(KernelError::argument(NAME)(reason));
        };
        match &self.stored {
            Stored::Floats(both) => {
                if quantises(device) {
                    check_arithmetic("attention", "k", [&of_floats(device), device])?;
                }
                attend_floats(device, both, new, pages, query_ranges, counter, attention)
            }
            Stored::Quantised([keys, values]) => {
                let fits = quantises(device) && attention.dropout.is_none();
                check_that!(NAME, fits =>
                    "keys and values are integers, expected a pass in `integer` that drops nothing")?;
                let q = Heads::of_queries(attention, Digits::Two);
                let q = QuantisedHeads::empty(device, q)?;
                append_integer_heads(device, new, &q, [keys, values], attention)?;
                let [of_queries, _] = attention.shapes();
                let o = device.alloc_shape(&of_queries)?;
                let operands = [&q, keys, values];
                let pages = Some(pages);
                integer_attention_of_cache(device, operands, pages, query_ranges, &o, attention)?;
                Ok(o)
            }
        }
    }
}

fn attend_floats(
    device: &Device,
    both: &[Buffer; 2],
    new: &AppendInputs<'_>,
    pages: &Pages<'_>,
    query_ranges: &Buffer,
    counter: Option<&Buffer>,
    attention: &Attention,
) -> Result<Buffer> {
    attention.check("attention")?;
    let [of_queries, of_keys] = attention.layouts()?;
    let q = device.alloc(of_queries.n_elements())?;
    append_heads(device, new, &q, both.each_ref(), attention)?;
    for cache in both {
        device.note_change(cache, 0..cache.len(), false);
    }
    let (placed, [keys, values]) = (attention.paged(pages), both);
    // The kernels that store scores read keys and values side by side.
    if !is_of_few_queries(device, attention) && key_heads_of_forward(device, &placed).is_some() {
        let side_by_side = |cache: &Buffer| match pages.in_order {
            true => Ok(cache.clone()),
            false => {
                let per_page = PAGE * attention.key_heads * attention.head_width;
                rows(device, cache, 0, [pages.n, per_page], pages.table)
            }
        };
        let (keys, values) = (side_by_side(keys)?, side_by_side(values)?);
        let operands = AttentionOperands {
            heads: [
                Operand::new(&q, &of_queries),
                Operand::new(&keys, &of_keys),
                Operand::new(&values, &of_keys),
            ],
            packed: None,
            limits: Limits {
                documents: None,
                lengths: Some(new.lengths),
                first_positions: Some(new.first_positions),
            },
            counter,
        };
        let (by, ranges) = (Schedule::Rows, Some(query_ranges));
        let prepared = PreparedAttention::by(by, device, &operands, ranges, attention, false)?;
        let [o, _] = prepared.forward(device, &operands)?;
        return Ok(o);
    }
    attention.check_counter("attention", counter)?;
    let o = device.alloc_shape(&attention.shapes()[0])?;
    let stats = device.alloc_shape(&[2, attention.all_queries()])?;
    let outputs = [&o, &stats];
    let words = [&q, keys, values];
    match is_of_few_queries(device, attention) {
        true => {
            few::OF_FLOATS.forward(device, words, query_ranges, Some(pages), outputs, placed)?;
        }
        false => RowOperands {
            device,
            kind: Kind::Floats,
            words: [&q, keys, values, &q, &q],
            ranges: query_ranges,
            counter,
            pages: Some(*pages),
            placed,
        }
        .forward(outputs)?,
    }
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

/// Copies elements to where they begin in another buffer.
fn put(device: &Device, from: &Buffer, to: &Buffer, first: usize) -> Result<()> {
    let layout = Layout::contiguous(&[from.len()])?;
    let target = layout.starting_at(first);
    let [from, to] = [(from, &layout), (to, &target)].map(|(x, at)| Operand::new(x, at));
    assign_strided(device, from, to)
}
