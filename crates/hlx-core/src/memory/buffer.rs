//! A buffer: a window of device memory, counted in 4-byte words.

use std::fmt;
use std::sync::Arc;

use super::{Block, TensorPool};
use crate::error::CoreError;

/// A range of a block, freed when the last buffer over it is dropped.
pub(crate) struct Allocation {
    /// None for a buffer of a recorded graph, whose place the plan of the graph's memory has, and
    /// for one that is a block by itself.
    pub pool: Option<Arc<TensorPool>>,
    pub block: Arc<Block>,
    pub offset: usize,
    pub words: usize,
}

impl Drop for Allocation {
    fn drop(&mut self) {
        if let Some(pool) = self.pool.clone() {
            pool.give_back(self);
        }
    }
}

/// A window of device memory: `len` words of 4 bytes (f32 or u32). Clones share the memory.
#[derive(Clone)]
pub struct Buffer {
    allocation: Arc<Allocation>,
    offset: usize,
    len: usize,
}

impl Buffer {
    pub(crate) fn whole(allocation: Allocation, len: usize) -> Self {
        let offset = allocation.offset;
        Self {
            allocation: Arc::new(allocation),
            offset,
            len,
        }
    }

    /// A whole block as one buffer; the memory is freed with the last clone.
    pub(crate) fn isolated(block: Arc<Block>, len: usize) -> Self {
        let words = block.words;
        let allocation = Allocation {
            pool: None,
            block,
            offset: 0,
            words,
        };
        Self::whole(allocation, len)
    }

    /// The number of words.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether the window holds no word.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Returns the window of `len` words from `offset` on; it shares the memory.
    ///
    /// A window that is bound to a kernel must start at a multiple of
    /// [`ALIGNMENT_WORDS`](crate::ALIGNMENT_WORDS).
    ///
    /// # Errors
    /// [`CoreError::Invalid`] if the window ends past this buffer.
    pub fn slice(&self, offset: usize, len: usize) -> Result<Self, CoreError> {
        if offset.checked_add(len).is_none_or(|end| end > self.len) {
            return Err(CoreError::invalid(
                "buffer window",
                format!(
                    "words {offset}..{offset}+{len} lie outside a buffer of {}",
                    self.len
                ),
            ));
        }
        Ok(Self {
            allocation: Arc::clone(&self.allocation),
            offset: self.offset + offset,
            len,
        })
    }

    /// Whether two windows share a word.
    pub fn overlaps(&self, other: &Self) -> bool {
        self.block().id == other.block().id
            && self.offset() < other.offset() + other.len
            && other.offset() < self.offset() + self.len
    }

    /// The block that the words lie in; a planned buffer's own until it has its place.
    pub(crate) fn block(&self) -> &Arc<Block> {
        self.allocation.block.placed().0
    }

    /// Whether the memory was taken from this pool.
    pub(crate) fn is_from(&self, pool: &Arc<TensorPool>) -> bool {
        self.allocation
            .pool
            .as_ref()
            .is_some_and(|own| Arc::ptr_eq(own, pool))
    }

    /// Whether this is a buffer of a graph that is being recorded, which has no memory yet.
    pub(crate) fn is_unplaced(&self) -> bool {
        self.allocation.block.is_unplaced()
    }

    pub(crate) fn allocation(&self) -> &Arc<Allocation> {
        &self.allocation
    }

    /// The first word's place in the block.
    pub(crate) fn offset(&self) -> usize {
        self.allocation.block.placed().1 + self.offset
    }
}

impl fmt::Debug for Buffer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "Buffer({} words at {}+{})",
            self.len,
            self.block().id,
            self.offset()
        )
    }
}
