//! What a walk needs of an arithmetic: products of rows with lanes, and sums of rows weighted by lanes.

use hlx_core::arith::FloatOps;

use super::tile::{Lanes, Seen, TILE};
use super::tiles::Tile;
use crate::product::quantised::Width;

/// The rows of heads, as an arithmetic stores them.
pub trait Rows: Copy {
    /// The rows of a tile, one a lane.
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

    /// `sums = sums * correction + sum over the rows of weights times rows`, of the rows that lanes see; weights over integers
    /// become integers of a width.
    fn add<A: FloatOps>(
        &mut self,
        sums: &mut [Lanes],
        correction: Option<&Lanes>,
        weights: &mut [Lanes],
        seen: Option<Seen>,
        width: Width,
    );
}
