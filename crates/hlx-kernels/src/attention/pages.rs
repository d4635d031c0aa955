//! Caches whose keys and values lie in pages of a pool: a table says which page has which block of a sequence's positions.

use hlx_core::{Buffer, as_u32};

use super::sizes::Attention;
use crate::Result;
use crate::error::{check_len, check_sizes};

/// Positions of a page: those of a block of keys, so that kernels read the table once a block.
pub const PAGE: usize = 32;

/// Where the keys and values of a cache lie.
#[derive(Clone, Copy, Debug)]
pub struct Pages<'a> {
    /// u32 `[B, S / 32]`: the page of each sequence's block of 32 positions. Kernels don't check the numbers; blocks that
    /// a sequence does not have need one, too, which may be any.
    pub table: &'a Buffer,
    /// The pages of the pool, all of which a number is below.
    pub n: usize,
    /// Whether the table counts 0, 1, .., so that the pool is `[B, S, G, D]` as well. A cache with quantised heads does not
    /// use it.
    pub in_order: bool,
}

impl Pages<'_> {
    /// Checks the table of a cache of `of.keys` positions a sequence.
    pub(super) fn check(&self, name: &'static str, of: &Attention) -> Result<()> {
        check_that!(name, of.keys.is_multiple_of(PAGE) =>
            "{} keys in pages, expected a multiple of {PAGE}", of.keys)?;
        check_sizes(name, &[self.n, PAGE, of.key_heads, of.head_width])?;
        check_len(name, "pages", self.table, [of.batch, of.keys / PAGE])
    }

    /// The specialization constant that says that there are pages.
    pub(super) const CONSTANT: (u32, u32) = (8, 1);
}

/// The constants of kernels that read or write a cache.
pub(super) fn constants(pages: Option<&Pages<'_>>) -> &'static [(u32, u32)] {
    match pages {
        Some(_) => &[Pages::CONSTANT],
        None => &[],
    }
}

/// A table as the CPU's bodies read it.
#[derive(Clone, Copy)]
pub struct Table<'a> {
    pages: &'a [u32],
    blocks: usize,
}

impl<'a> Table<'a> {
    /// Of a kernel's words, if it has pages.
    pub fn new(words: &'a [f32], is_paged: bool, positions: usize) -> Option<Self> {
        is_paged.then(|| Self {
            pages: as_u32(words),
            blocks: positions / PAGE,
        })
    }

    /// The page of a sample's position, and the place in it.
    #[inline(always)]
    pub fn at(&self, sample: usize, position: usize) -> [usize; 2] {
        let page = self.pages[sample * self.blocks + position / PAGE];
        [page as usize, position % PAGE]
    }
}
