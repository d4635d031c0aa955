//! What a walk needs of an arithmetic: products of rows with lanes, and sums of rows weighted by lanes. And the rows of
//! floats, whose sums are chains.

use hlx_core::arith::FloatOps;

use super::tile::{Lanes, Seen, TILE, accumulate, accumulate_seen, contract, map_lanes, pack};
use super::tiles::Tile;
use crate::attention::pages::{PAGE, Table};
use crate::attention::sizes::Strided;
use crate::product::quantised::Digits;

/// The rows of heads, as an arithmetic stores them.
pub trait Rows: Copy {
    /// The rows of a tile, one per lane.
    type Packed;
    /// Up to 32 rows as they lie in memory.
    type Block: Block<Self, Packed = Self::Packed>;
    /// Whether sums over queries go by blocks that count, as those of keys do, from the first position of a document.
    const QUERIES_BY_DOCUMENT: bool;

    fn pack(&self, tile: Tile) -> Self::Packed;

    /// Memory for blocks.
    fn block(&self) -> Self::Block;

    /// `l` after a block, whose `n` weights are corrected by the lanes.
    fn total<A: FloatOps>(
        l: Lanes,
        correction: &Lanes,
        weights: &mut [Lanes; TILE],
        n: usize,
    ) -> Lanes;
}

pub trait Block<R> {
    type Packed;

    /// Reads the rows of a tile.
    fn read(&mut self, rows: &R, tile: Tile);

    /// `out[r] = sum_d row r [d] lanes[d]`.
    fn products<A: FloatOps>(&mut self, out: &mut [Lanes], lanes: &Self::Packed);

    /// `sums = sums * correction + sum over the rows of weights times rows`, of the rows that lanes see. For
    /// quantised rows weights become integers with these digits.
    fn add<A: FloatOps>(
        &mut self,
        sums: &mut [Lanes],
        correction: Option<&Lanes>,
        weights: &mut [Lanes],
        seen: Option<Seen>,
        n_digits: Digits,
    );
}

/// The rows of heads where they lie.
#[derive(Clone, Copy)]
pub struct Floats<'a> {
    words: &'a [f32],
    place: Strided,
    width: usize,
    /// Of rows in pages.
    pages: Option<Table<'a>>,
}

impl<'a> Floats<'a> {
    pub fn new(words: &'a [f32], place: Strided, width: usize) -> Self {
        Self {
            words,
            place,
            width,
            pages: None,
        }
    }

    /// Rows in the pages of a pool, if there is a table.
    pub fn in_pages(self, pages: Option<Table<'a>>) -> Self {
        Self { pages, ..self }
    }

    /// The rows from a tile's first on, and from one to the next. A tile of rows in pages lies in one of them.
    #[inline(always)]
    pub fn rows(&self, tile: Tile) -> (&'a [f32], usize) {
        let at = match self.pages {
            None => self.place.at(tile.sample, tile.first, tile.head),
            Some(pages) => {
                let [page, place] = pages.at(tile.sample, tile.first);
                self.place.at(0, page * PAGE + place, tile.head)
            }
        };
        (&self.words[at..], self.place.position)
    }
}

impl<'a> Rows for Floats<'a> {
    type Packed = Vec<Lanes>;
    type Block = (&'a [f32], usize);
    const QUERIES_BY_DOCUMENT: bool = false;

    #[inline(always)]
    fn pack(&self, tile: Tile) -> Vec<Lanes> {
        let mut packed = vec![[0.0; TILE]; self.width];
        let (rows, stride) = self.rows(tile);
        pack(&mut packed, rows, stride, tile.n);
        packed
    }

    fn block(&self) -> Self::Block {
        (&[], 0)
    }

    #[inline(always)]
    fn total<A: FloatOps>(
        l: Lanes,
        correction: &Lanes,
        weights: &mut [Lanes; TILE],
        n: usize,
    ) -> Lanes {
        let corrected = map_lanes(|lane| A::mul(l[lane], correction[lane]));
        let add = |l: Lanes, p: &Lanes| map_lanes(|lane| l[lane] + p[lane]);
        weights[..n].iter().fold(corrected, add)
    }
}

impl<'a> Block<Floats<'a>> for (&'a [f32], usize) {
    type Packed = Vec<Lanes>;

    #[inline(always)]
    fn read(&mut self, rows: &Floats<'a>, tile: Tile) {
        *self = rows.rows(tile);
    }

    #[inline(always)]
    fn products<A: FloatOps>(&mut self, out: &mut [Lanes], lanes: &Vec<Lanes>) {
        contract(out, self.0, self.1, lanes);
    }

    #[inline(always)]
    fn add<A: FloatOps>(
        &mut self,
        sums: &mut [Lanes],
        correction: Option<&Lanes>,
        weights: &mut [Lanes],
        seen: Option<Seen>,
        _: Digits,
    ) {
        if let Some(correction) = correction {
            for sum in sums.iter_mut() {
                *sum = map_lanes(|lane| A::mul(sum[lane], correction[lane]));
            }
        }
        match seen {
            None => accumulate(sums, weights, self.0, self.1),
            Some(seen) => accumulate_seen(sums, weights, self.0, self.1, seen),
        }
    }
}
