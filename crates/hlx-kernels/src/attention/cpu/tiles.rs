//! Rows of heads that tasks write, each those of a tile.

use std::marker::PhantomData;

use super::tile::TILE;
use crate::attention::sizes::{Attention, Strided};
use crate::parallel::Pieces;

/// Up to 32 rows of a head: queries, or keys.
#[derive(Clone, Copy)]
pub struct Tile {
    pub sample: usize,
    /// Of the rows.
    pub head: usize,
    pub first: usize,
    pub n: usize,
}

impl Tile {
    /// The block of keys at `first` that these queries see.
    pub fn of_keys(&self, attention: &Attention, first: u32) -> Self {
        let first = first as usize;
        Self {
            sample: self.sample,
            head: self.head / attention.group(),
            first,
            n: TILE.min(attention.keys - first),
        }
    }
}

/// Rows `[batch, positions, heads, width]` where they lie, in pieces of a head's 32 positions.
pub struct Tiles<'a> {
    words: *mut f32,
    place: Strided,
    extents: [usize; 4],
    memory: PhantomData<&'a mut [f32]>,
}

/// The rows of a tile.
pub struct Piece<'a> {
    pub tile: Tile,
    first: *mut f32,
    stride: usize,
    width: usize,
    memory: PhantomData<&'a mut [f32]>,
}

impl<'a> Tiles<'a> {
    /// Several of one memory.
    fn of<const N: usize>(
        words: &'a mut [f32],
        places: [Strided; N],
        extents: [usize; 4],
    ) -> [Self; N] {
        assert!(are_apart(&places, extents), "{places:?} overlap");
        let [batch, positions, heads, width] = extents;
        // One pointer for all: another one of the slice would end the first one's right to write.
        let (len, words) = (words.len(), words.as_mut_ptr());
        places.map(|place| {
            if batch > 0 {
                let end = place.at(batch - 1, positions - 1, heads - 1) + width;
                assert!(end <= len, "{end} of {len}");
            }
            Self {
                words,
                place,
                extents,
                memory: PhantomData,
            }
        })
    }

    /// Rows of queries.
    pub fn of_queries(of: &Attention, words: &'a mut [f32], place: Strided) -> Self {
        let extents = [of.batch, of.queries, of.heads, of.head_width];
        let [tiles] = Self::of(words, [place], extents);
        tiles
    }

    /// Rows of keys, once or more in one memory.
    pub fn of_keys<const N: usize>(
        of: &Attention,
        words: &'a mut [f32],
        places: [Strided; N],
    ) -> [Self; N] {
        let extents = [of.batch, of.keys, of.key_heads, of.head_width];
        Self::of(words, places, extents)
    }

    /// The statistics, in the order of the queries.
    pub fn of_stats(of: &Attention, words: &'a mut [f32]) -> Self {
        let place = Strided::contiguous(of.queries, 1, 2);
        let [tiles] = Self::of(words, [place], [of.all_heads(), of.queries, 1, 2]);
        tiles
    }
}

/// Whether no two rows share an element: heads lie within positions, these within samples, and places of the same
/// strides in the gaps between each other's positions, or behind all of them.
fn are_apart(places: &[Strided], [batch, positions, heads, width]: [usize; 4]) -> bool {
    let first = &places[0];
    let stride = |stride, n| if n > 1 { stride } else { usize::MAX };
    let [sample, position] = [
        stride(first.batch, batch),
        stride(first.position, positions),
    ];
    let of_position = first.head * (heads - 1) + width;
    let of_sample = first.position * (positions - 1) + of_position;
    let is_nested = heads == 1 || first.head >= width;
    let is_nested = is_nested && position >= of_position && sample >= of_sample;
    let all = first.batch * batch.saturating_sub(1) + of_sample;
    let gap = of_position..=position.min(sample).saturating_sub(of_position);
    is_nested
        && places[1..].iter().all(|place| {
            let between = place.first.abs_diff(first.first);
            let same = Strided {
                first: first.first,
                ..*place
            } == *first;
            same && (between >= all || gap.contains(&between))
        })
}

// SAFETY: it stands for a `&mut [f32]`, of which pieces of different numbers have different rows.
unsafe impl Sync for Tiles<'_> {}

// SAFETY: rows of different tiles share no element, as `are_apart` says.
unsafe impl<'a> Pieces for Tiles<'a> {
    type Piece = Piece<'a>;

    fn count(&self) -> usize {
        let [batch, positions, heads, _] = self.extents;
        batch * positions.div_ceil(TILE) * heads
    }

    unsafe fn piece(&self, i: usize) -> Piece<'a> {
        let [_, positions, heads, width] = self.extents;
        let tiles = positions.div_ceil(TILE);
        let (head, first) = (i / tiles, i % tiles * TILE);
        let (sample, head) = (head / heads, head % heads);
        let tile = Tile {
            sample,
            head,
            first,
            n: TILE.min(positions - first),
        };
        // SAFETY: `i` is less than the count, so that the tile's rows lie in the memory.
        let first = unsafe { self.words.add(self.place.at(sample, first, head)) };
        Piece {
            tile,
            first,
            stride: self.place.position,
            width,
            memory: PhantomData,
        }
    }
}

impl Piece<'_> {
    /// Writes all rows, `[n, width]`.
    pub fn write(&mut self, rows: &[f32]) {
        for (row, values) in rows.chunks_exact(self.width).take(self.tile.n).enumerate() {
            // SAFETY: the tile has `n` rows of `width` elements, which only this piece holds.
            let to = unsafe {
                std::slice::from_raw_parts_mut(self.first.add(row * self.stride), self.width)
            };
            to.copy_from_slice(values);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_that_share_an_element_are_found() {
        let place = |first, position| Strided {
            first,
            batch: 100,
            position,
            head: 4,
        };
        for (places, expected) in [
            ([place(0, 8), place(200, 8)], true),
            ([place(0, 7), place(200, 7)], false),
            ([place(0, 16), place(8, 16)], true),
            ([place(0, 16), place(4, 16)], false),
            ([place(0, 50), place(8, 50)], false),
            ([place(0, 16), place(8, 17)], false),
        ] {
            assert_eq!(are_apart(&places, [2, 3, 2, 4]), expected, "{places:?}");
        }
    }
}
