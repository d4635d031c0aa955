//! What a task of the CPU twin reads: rows, draws, segments of queries and what they see.

use hlx_core::arith::{FloatOps, philox4x32, uniform};
use hlx_core::as_u32;

use super::digits::QuantisedRows;
use super::rows::Floats;
use super::tile::{Lanes, Seen, TILE};
use super::tiles::Tile;
use crate::attention::pages::Table;
use crate::attention::sizes::{Attention, Placed, Push};

/// A row of ranges: the first key of its document, begin, end, its position.
pub type Range = [u32; 4];

/// q, k, v, the gradient of the output, and q as its sums over queries read it; a forward pass reads the first three.
#[derive(Clone, Copy)]
pub enum Operands<'a> {
    Floats([Floats<'a>; 5]),
    Quantised([QuantisedRows<'a>; 5]),
}

impl<'a> Operands<'a> {
    pub fn floats([q, k, v]: [&'a [f32]; 3], placed: &Placed, d_o: &'a [f32]) -> Self {
        let Placed {
            attention, places, ..
        } = placed;
        let [of_q, of_k, of_v] = *places;
        let of_d_o = attention.output_place();
        let rows = |words, place| Floats::new(words, place, attention.head_width);
        let q = rows(q, of_q);
        Self::Floats([q, rows(k, of_k), rows(v, of_v), rows(d_o, of_d_o), q])
    }

    /// With keys and values in the pages of a pool, if there is a table.
    pub fn in_pages(self, pages: Option<Table<'a>>) -> Self {
        match self {
            Self::Floats([q, k, v, d_o, q_in_sums]) => {
                let [k, v] = [k, v].map(|rows| rows.in_pages(pages));
                Self::Floats([q, k, v, d_o, q_in_sums])
            }
            Self::Quantised([q, k, v, d_o, q_in_sums]) => {
                let [k, v] = [k, v].map(|rows| rows.in_pages(pages));
                Self::Quantised([q, k, v, d_o, q_in_sums])
            }
        }
    }
}

/// All that a pass reads.
#[derive(Clone, Copy)]
pub struct Inputs<'a> {
    pub operands: Operands<'a>,
    /// `[B, T]`.
    ranges: &'a [Range],
    counter: &'a [f32],
    pub push: Push,
    pub attention: &'a Attention,
}

impl<'a> Inputs<'a> {
    pub fn new(
        operands: Operands<'a>,
        ranges: &'a [f32],
        counter: &'a [f32],
        placed: &'a Placed,
    ) -> Self {
        Self {
            operands,
            ranges: bytemuck::cast_slice(ranges),
            counter,
            push: placed.push(),
            attention: &placed.attention,
        }
    }

    /// What the queries of a tile see.
    pub fn of_queries(&self, tile: Tile) -> [Range; TILE] {
        of_tile(self.ranges, tile, self.attention.queries)
    }

    /// What the queries of a sample see.
    pub fn of_sample(&self, sample: usize) -> &'a [Range] {
        let queries = self.attention.queries;
        &self.ranges[sample * queries..][..queries]
    }

    /// What sees the keys of a tile.
    pub fn of_keys(&self, ranges: &[Range], tile: Tile) -> [Range; TILE] {
        of_tile(ranges, tile, self.attention.keys)
    }

    /// The position of a query.
    pub fn position(&self, sample: usize, query: usize) -> u32 {
        let at = sample * self.attention.queries + query;
        self.ranges[at][3]
    }

    /// The place of a query in `[B, H, T]`.
    pub fn query(&self, sample: usize, head: usize, query: usize) -> usize {
        (sample * self.attention.heads + head) * self.attention.queries + query
    }

    /// The draws of a sample's weights in a head, if weights are dropped; the counter is `[step, first sample]`.
    pub fn draws(&self, sample: usize, head: usize) -> Option<Draws> {
        let (dropout, push) = (self.attention.dropout?, &self.push);
        let [step, first] = [as_u32(self.counter)[0], as_u32(self.counter)[1]];
        let words = philox4x32(
            [0, first.wrapping_add(sample as u32), step, push.purpose],
            [push.seed_low, push.seed_high],
        );
        Some(Draws {
            key: [words[0], words[1]],
            head: head as u32,
            p: dropout.p,
            factor: push.factor,
        })
    }
}

/// The ranges of a tile's rows, of `[B, length]`.
fn of_tile(ranges: &[Range], tile: Tile, length: usize) -> [Range; TILE] {
    let first = tile.sample * length + tile.first;
    std::array::from_fn(|row| match row < tile.n {
        true => ranges[first + row],
        false => [0; 4],
    })
}

/// Which weights of a head stay.
#[derive(Clone, Copy)]
pub struct Draws {
    key: [u32; 2],
    head: u32,
    p: f32,
    factor: f32,
}

impl Draws {
    /// Whether the weights of four neighbouring keys stay.
    #[inline(always)]
    fn stays(&self, quad: u32, position: u32) -> [bool; 4] {
        philox4x32([quad, position, self.head, 0], self.key).map(|word| uniform(word) >= self.p)
    }

    #[inline(always)]
    fn dropped<A: FloatOps>(&self, stays: bool, x: f32) -> f32 {
        if stays { A::mul(x, self.factor) } else { 0.0 }
    }

    /// Drops weights of a block of keys, whose first is this far from its document's, for queries with these ranges.
    #[inline(always)]
    pub fn drop_keys<A: FloatOps>(&self, block: &mut [Lanes], ranges: &[Range], first: u32) {
        for (quad, weights) in block.chunks_mut(4).enumerate() {
            for (lane, range) in ranges.iter().enumerate() {
                let stays = self.stays(first / 4 + quad as u32, range[3]);
                for (weights, stays) in weights.iter_mut().zip(stays) {
                    weights[lane] = self.dropped::<A>(stays, weights[lane]);
                }
            }
        }
    }

    /// Drops what belongs to the weights of a query at a position, for keys with these ranges.
    #[inline(always)]
    pub fn drop_query<A: FloatOps>(&self, of: [&mut Lanes; 2], ranges: &[Range], position: u32) {
        let [p, dp] = of;
        for (lane, range) in ranges.iter().enumerate() {
            let place = range[3] - range[0];
            let stays = self.stays(place / 4, position)[place as usize % 4];
            p[lane] = self.dropped::<A>(stays, p[lane]);
            dp[lane] = self.dropped::<A>(stays, dp[lane]);
        }
    }
}

/// The rows of a tile, document by document.
pub fn documents(ranges: &[Range]) -> impl Iterator<Item = std::ops::Range<usize>> {
    let mut start = 0;
    std::iter::from_fn(move || {
        let first = ranges.get(start)?;
        let same = |range: &&Range| range[0] == first[0];
        let rows = start..start + ranges[start..].iter().take_while(same).count();
        start = rows.end;
        Some(rows)
    })
}

/// The blocks of keys that queries see, which count from the first key of the document: the queries of a document, and
/// the block's first key.
pub fn key_blocks(ranges: &[Range]) -> impl Iterator<Item = (std::ops::Range<usize>, u32)> {
    documents(ranges).flat_map(|rows| {
        let (begin, end) = union(&ranges[rows.clone()]);
        let begin = begin - (begin - ranges[rows.start][0].min(begin)) % TILE as u32;
        (begin..end)
            .step_by(TILE)
            .map(move |key| (rows.clone(), key))
    })
}

/// The columns that any of the rows sees; an empty range if there is none.
pub fn union(ranges: &[Range]) -> (u32, u32) {
    let seen = ranges.iter().filter(|range| range[1] < range[2]);
    let hull = seen.fold((u32::MAX, 0), |(begin, end), range| {
        (begin.min(range[1]), end.max(range[2]))
    });
    if hull.0 < hull.1 { hull } else { (0, 0) }
}

/// The columns that all of the rows see, from the first one up to the second.
pub fn seen_by_all(ranges: &[Range]) -> [u32; 2] {
    let all = ranges.iter();
    all.fold([0, u32::MAX], |[begin, end], range| {
        [begin.max(range[1]), end.min(range[2])]
    })
}

/// What each row of a tile sees of a block of `n` columns; `None` if all of it, as `by_all` may tell at once. Rows
/// outside of `rows` see nothing, lanes without a row do not count.
pub fn seen(
    ranges: &[Range],
    by_all: [u32; 2],
    rows: &std::ops::Range<usize>,
    column: u32,
    n: usize,
) -> Option<Seen> {
    if rows.len() == ranges.len() && column >= by_all[0] && column + n as u32 <= by_all[1] {
        return None;
    }
    let mut seen = Seen {
        low: [0; TILE],
        high: [TILE as u32; TILE],
    };
    let mut whole = true;
    for (lane, range) in ranges.iter().enumerate() {
        let clamped = |bound: u32| bound.clamp(column, column + TILE as u32) - column;
        let (low, high) = match rows.contains(&lane) {
            true => (clamped(range[1]), clamped(range[2])),
            false => (0, 0),
        };
        whole &= low == 0 && high as usize >= n;
        (seen.low[lane], seen.high[lane]) = (low, high);
    }
    (!whole).then_some(seen)
}
