//! A buffer: a window of device memory that holds elements of one type.

use std::fmt;
use std::sync::Arc;

use super::{Block, TensorPool};
use crate::dtype::DType;
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

/// A window of device memory: `len` elements of a [`DType`], in whole 4-byte words. Clones share
/// the memory.
#[derive(Clone)]
pub struct Buffer {
    allocation: Arc<Allocation>,
    /// The first word's place in the allocation's block.
    offset: usize,
    len: usize,
    dtype: DType,
}

impl Buffer {
    /// An allocation's first `len` words, as f32.
    pub(crate) fn whole(allocation: Allocation, len: usize) -> Self {
        let offset = allocation.offset;
        Self {
            allocation: Arc::new(allocation),
            offset,
            len,
            dtype: DType::F32,
        }
    }

    /// A whole block's first `len` words as one buffer; the memory is freed with the last clone.
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

    /// The number of elements.
    pub fn len(&self) -> usize {
        self.len
    }

    /// The type of the elements.
    pub fn dtype(&self) -> DType {
        self.dtype
    }

    /// The number of 4-byte words; the last may hold fewer elements than fit.
    pub fn words(&self) -> usize {
        self.dtype.words(self.len)
    }

    /// The same memory as `len` elements of another type.
    ///
    /// # Errors
    /// [`CoreError::Invalid`] if they need more or fewer words.
    pub fn view_as(&self, dtype: DType, len: usize) -> Result<Self, CoreError> {
        if dtype.words(len) != self.words() {
            let (found, expected) = (dtype.words(len), self.words());
            return Err(CoreError::invalid(
                "buffer view",
                format!("{len} elements of {dtype} take {found} words, the buffer has {expected}"),
            ));
        }
        Ok(Self {
            dtype,
            len,
            ..self.clone()
        })
    }

    /// The same memory as words.
    pub(crate) fn as_words(&self) -> Self {
        Self {
            dtype: DType::U32,
            len: self.words(),
            ..self.clone()
        }
    }

    /// Whether the window holds no element.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Returns the window of `len` elements from `offset` on; it shares the memory.
    ///
    /// A window that is bound to a kernel must start at a multiple of
    /// [`ALIGNMENT_WORDS`](crate::ALIGNMENT_WORDS).
    ///
    /// # Errors
    /// [`CoreError::Invalid`] if the window ends past this buffer or starts within a word.
    pub fn slice(&self, offset: usize, len: usize) -> Result<Self, CoreError> {
        let invalid = |reason| Err(CoreError::invalid("buffer window", reason));
        if offset.checked_add(len).is_none_or(|end| end > self.len) {
            return invalid(format!(
                "elements {offset}..{offset}+{len} lie outside a buffer of {}",
                self.len
            ));
        }
        if !offset.is_multiple_of(self.dtype.per_word()) {
            let (dtype, per_word) = (self.dtype, self.dtype.per_word());
            return invalid(format!(
                "a window of {dtype} starts at element {offset}, not at a multiple of {per_word}"
            ));
        }
        Ok(Self {
            allocation: Arc::clone(&self.allocation),
            offset: self.offset + offset / self.dtype.per_word(),
            len,
            dtype: self.dtype,
        })
    }

    /// Whether two windows share a word.
    pub fn overlaps(&self, other: &Self) -> bool {
        self.block().id == other.block().id
            && self.offset() < other.offset() + other.words()
            && other.offset() < self.offset() + self.words()
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
            "Buffer({} {} at {}+{})",
            self.len,
            self.dtype,
            self.block().id,
            self.offset()
        )
    }
}
