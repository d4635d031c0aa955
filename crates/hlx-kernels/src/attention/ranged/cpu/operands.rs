//! What a task of the CPU twin reads: rows, draws, segments of queries and what they see.

use hlx_core::arith::{FloatOps, philox4x32, uniform};

use super::super::sizes::{Placed, RangedAttention, Strided};
use super::super::{Push, draw_key};
use crate::attention::tile::{Lanes, Seen, TILE};

/// A row of ranges: the first key of its document, begin, end, its position.
pub type Range = [u32; 4];

/// The operands of a pass.
#[derive(Clone, Copy)]
pub struct Inputs<'a> {
    operands: [&'a [f32]; 3],
    places: &'a [Strided; 3],
    pub ranges: &'a [Range],
    counter: &'a [f32],
    pub push: &'a Push,
    pub attention: &'a RangedAttention,
}

impl<'a> Inputs<'a> {
    pub fn new(
        operands: [&'a [f32]; 3],
        placed: &'a Placed,
        ranges: &'a [f32],
        counter: &'a [f32],
        push: &'a Push,
    ) -> Self {
        let Placed { attention, places } = placed;
        Self {
            operands,
            places,
            ranges: bytemuck::cast_slice(ranges),
            counter,
            push,
            attention,
        }
    }

    /// The rows of an operand (0 query, 1 key, 2 value; `head` is one of its own) from a position on,
    /// and their stride.
    #[inline(always)]
    pub fn rows(
        &self,
        which: usize,
        sample: usize,
        head: usize,
        position: usize,
    ) -> (&'a [f32], usize) {
        let place = &self.places[which];
        let at = place.at(sample, position, head);
        (&self.operands[which][at..], place.position)
    }

    /// The draws of a sample's weights in a head, if weights are dropped.
    pub fn draws(&self, sample: usize, head: usize) -> Option<Draws> {
        let dropout = self.attention.dropout?;
        Some(Draws {
            key: draw_key(self.push, self.counter, sample),
            head: head as u32,
            p: dropout.p,
            factor: self.push.factor,
        })
    }
}

/// Which weights of a head stay.
#[derive(Clone, Copy)]
pub struct Draws {
    key: [u32; 2],
    head: u32,
    p: f32,
    pub factor: f32,
}

impl Draws {
    /// Whether the weights of four neighbouring keys stay.
    #[inline(always)]
    pub fn keeps(&self, quad: u32, position: u32) -> [bool; 4] {
        philox4x32([quad, position, self.head, 0], self.key).map(|word| uniform(word) >= self.p)
    }
}

impl Draws {
    /// Drops weights of a block of keys, whose first is this far from its document's, for queries with these ranges.
    #[inline(always)]
    pub fn drop_keys<A: FloatOps>(&self, block: &mut [Lanes], ranges: &[Range], first: u32) {
        for (quad, weights) in block.chunks_mut(4).enumerate() {
            for (lane, range) in ranges.iter().enumerate() {
                let kept = self.keeps(first / 4 + quad as u32, range[3]);
                for (weights, kept) in weights.iter_mut().zip(kept) {
                    weights[lane] = if kept {
                        A::mul(weights[lane], self.factor)
                    } else {
                        0.0
                    };
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
            let kept = self.keeps(place / 4, position)[place as usize % 4];
            let dropped = |x: f32| if kept { A::mul(x, self.factor) } else { 0.0 };
            (p[lane], dp[lane]) = (dropped(p[lane]), dropped(dp[lane]));
        }
    }
}

/// Up to 32 rows of a head: queries, or keys.
#[derive(Clone, Copy)]
pub struct Tile {
    pub sample: usize,
    /// Of the rows.
    pub head: usize,
    pub first: usize,
    pub n: usize,
}

/// Neighbouring queries of a tile that belong to one document, and the blocks of keys they see.
pub struct Segment {
    pub rows: std::ops::Range<usize>,
    pub first_key: u32,
    pub blocks: std::iter::StepBy<std::ops::Range<u32>>,
}

/// The segments of a tile of queries.
pub fn segments(ranges: &[Range]) -> impl Iterator<Item = Segment> {
    let mut start = 0;
    std::iter::from_fn(move || {
        let &[first_key, ..] = ranges.get(start)?;
        let same = ranges[start..]
            .iter()
            .take_while(|range| range[0] == first_key);
        let rows = start..start + same.count();
        start = rows.end;
        let (begin, end) = union(&ranges[rows.clone()]);
        let begin = begin - (begin - first_key.min(begin)) % TILE as u32;
        Some(Segment {
            rows,
            first_key,
            blocks: (begin..end).step_by(TILE),
        })
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

/// What each row of a tile sees of a block of `n` columns; `None` if all of it. Rows outside of
/// `rows` see nothing, lanes without a row do not count.
pub fn seen(
    ranges: &[Range],
    rows: &std::ops::Range<usize>,
    column: u32,
    n: usize,
) -> Option<Seen> {
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
