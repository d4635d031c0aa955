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
        places.map(|place| {
            if batch > 0 {
                let end = place.at(batch - 1, positions - 1, heads - 1) + width;
                assert!(end <= words.len(), "{end} of {}", words.len());
            }
            Self {
                words: words.as_mut_ptr(),
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

    /// `[B, H, T, 2]`.
    pub fn of_stats(of: &Attention, words: &'a mut [f32]) -> Self {
        let place = Strided {
            first: 0,
            batch: 2 * of.heads * of.queries,
            position: 2,
            head: 2 * of.queries,
        };
        let [tiles] = Self::of(words, [place], [of.batch, of.queries, of.heads, 2]);
        tiles
    }
}

/// Whether no two rows share an element: dimensions lie within each other in one order, and places of the same
/// strides in the gaps of each other or behind.
fn are_apart(places: &[Strided], [batch, positions, heads, width]: [usize; 4]) -> bool {
    let dimensions = |place: &Strided| {
        let all = [
            (place.batch, batch),
            (place.position, positions),
            (place.head, heads),
        ];
        let mut all = all.map(|(stride, n)| if n > 1 { (stride, n) } else { (0, 1) });
        all.sort_unstable();
        all
    };
    let span = |dimensions: [(usize, usize); 3]| {
        dimensions.iter().try_fold(width, |span, &(stride, n)| {
            let fits = n == 1 || stride >= span;
            fits.then_some(span + stride * (n - 1))
        })
    };
    let each_alone = places.iter().all(|place| span(dimensions(place)).is_some());
    let [first, rest @ ..] = places else {
        return true;
    };
    each_alone
        && rest.iter().all(|place| {
            // The heads of a position are one span; that of the other place begins in the rest of the step, or past all.
            let of_position = place.head * (heads - 1) + width;
            let step = if positions > 1 {
                place.position
            } else {
                place.batch
            };
            let between = place.first.abs_diff(first.first);
            let all = span(dimensions(place)).unwrap_or(usize::MAX);
            let gap = of_position..=step.saturating_sub(of_position);
            dimensions(place) == dimensions(first) && (between >= all || gap.contains(&between))
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
        let (sample, first) = (i / heads / tiles, i / heads % tiles * TILE);
        let tile = Tile {
            sample,
            head: i % heads,
            first,
            n: TILE.min(positions - first),
        };
        // SAFETY: `i` is less than the count, so that the tile's rows lie in the memory.
        let first = unsafe { self.words.add(self.place.at(sample, first, tile.head)) };
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
