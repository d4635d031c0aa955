//! Rows of A that are packed once, because every matrix of B is multiplied with them.

use std::ops::Range;

use hlx_core::cpu::SimdLevel;

use super::cpu::tiles_of;
use super::pack::{Matrices, Panel, Part, Source};
use crate::parallel::{for_each, write};

/// The register tiles of matrices of A one behind the other, each as `[terms][rows of the tile]`.
#[derive(Clone, Copy)]
pub(crate) struct PackedRows<'a> {
    tiles: &'a [f32],
    /// The matrices of A, which those of B take in turns.
    matrices: usize,
    /// Rows of a register tile, and tiles of a matrix.
    height: usize,
    count: usize,
    /// Terms of a row.
    terms: usize,
}

impl<'a> PackedRows<'a> {
    /// Packs matrices of \[rows, terms\] into `tiles`.
    pub fn new(
        level: SimdLevel,
        matrices: &[f32],
        [rows, terms]: [usize; 2],
        tiles: &'a mut Vec<f32>,
    ) -> Self {
        let height = tiles_of(level).rows;
        let (count, length) = (rows.div_ceil(height), height * terms);
        let source = Matrices::<f32>::new(matrices, rows * terms, terms, true);
        let matrices = matrices.len() / (rows * terms).max(1);
        tiles.resize(matrices * count * length, 0.0);
        for_each(write(tiles, length), |i, tile| {
            let first = i % count * height;
            let (vectors, terms) = (first..rows.min(first + height), 0..terms);
            let part = Part {
                batch_idx: i / count,
                vectors: &vectors,
                terms: &terms,
            };
            let panel = Panel::new(&vectors, &terms, vectors.len());
            source.pack(&part, &[], panel, tile);
        });
        Self {
            tiles,
            matrices,
            height,
            count,
            terms,
        }
    }
}

impl Source for PackedRows<'_> {
    fn pack(&self, part: &Part<'_>, _staged: &[f32], panel: Panel, to: &mut [f32]) {
        let rows = panel.first..panel.first + panel.count;
        let terms = panel.k_first..panel.k_first + panel.k_count;
        if let Some(tile) = self.packed(part.batch_idx, &rows, &terms) {
            to[..tile.len()].copy_from_slice(tile);
        }
    }

    fn packed(
        &self,
        batch_idx: usize,
        rows: &Range<usize>,
        terms: &Range<usize>,
    ) -> Option<&[f32]> {
        let tile = batch_idx % self.matrices * self.count + rows.start / self.height;
        let first = tile * self.height * self.terms + terms.start * rows.len();
        self.tiles.get(first..first + terms.len() * rows.len())
    }
}
