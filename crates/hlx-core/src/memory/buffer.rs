//! A buffer: a window of device memory that holds elements of one type.

use std::fmt;
use std::ops::Range;
use std::sync::{Arc, Weak};

use super::{Block, Changes, Memo, TensorPool};
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
    changes: Changes,
    memo: Memo,
}

impl Allocation {
    pub fn new(
        pool: Option<Arc<TensorPool>>,
        block: Arc<Block>,
        offset: usize,
        words: usize,
    ) -> Self {
        Self {
            pool,
            block,
            offset,
            words,
            changes: Changes::default(),
            memo: Memo::default(),
        }
    }

    fn note_change(&self, words: Range<usize>, rebased: bool) {
        self.memo.forget(&words);
        self.changes.note(words, rebased);
    }

    /// Forgets what a graph computes of the values, as its recording ends.
    pub fn forget_recorded(&self) {
        self.memo.forget_recorded();
    }
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
        Self::whole(Allocation::new(None, block, 0, words), len)
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

    /// Whether these words are the whole of an allocation of their own, as
    /// [`Device::alloc_isolated`](crate::Device::alloc_isolated) makes it: no other tensor is in it.
    pub fn is_isolated(&self) -> bool {
        let is_own = self.allocation.pool.is_none() && !self.allocation.block.is_planned();
        is_own && self.offset == 0 && self.words().max(1) == self.allocation.block.words
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

    /// The window from this one's first element to the end of `last`, if that is a later window of the
    /// same allocation and type.
    pub fn through(&self, last: &Self) -> Option<Self> {
        let is_same = Arc::ptr_eq(&self.allocation, &last.allocation) && self.dtype == last.dtype;
        if !is_same || last.offset < self.offset + self.words() {
            return None;
        }
        let before = (last.offset - self.offset) * self.dtype.per_word();
        Some(Self {
            len: before + last.len,
            ..self.clone()
        })
    }

    /// Whether two windows share a word.
    pub fn overlaps(&self, other: &Self) -> bool {
        self.block().id == other.block().id
            && self.offset() < other.offset() + other.words()
            && other.offset() < self.offset() + self.words()
    }

    /// Notes that elements of this range are changed in place from now on. `rebased` tells that views
    /// of them made before no longer know how their values came about. Whoever changes values that
    /// others may hold does so through [`Device::note_change`](crate::Device::note_change),
    /// which also remembers changes that a graph makes.
    pub(crate) fn note_change(&self, elements: Range<usize>, rebased: bool) -> NotedChange {
        let words = self.words_of(&elements);
        self.allocation.note_change(words.clone(), rebased);
        NotedChange {
            allocation: Arc::downgrade(&self.allocation),
            words,
        }
    }

    /// Whether elements of this range were changed in place after a moment
    /// ([`last_moment`](crate::last_moment)).
    pub fn changed_after(&self, moment: u64, elements: Range<usize>) -> bool {
        let words = self.words_of(&elements);
        self.allocation.changes.after(moment, &words, false)
    }

    /// As [`Buffer::changed_after`], by a change that left views without their history.
    pub fn rebased_after(&self, moment: u64, elements: Range<usize>) -> bool {
        let words = self.words_of(&elements);
        self.allocation.changes.after(moment, &words, true)
    }

    /// Returns what was made of this window's values and fits, if they have not changed since
    /// ([`Device::remember`](crate::Device::remember)).
    pub fn recall<T: Clone + 'static>(&self, fits: impl Fn(&T) -> bool) -> Option<T> {
        self.allocation.memo.find(&self.remembered(), fits)
    }

    /// Forgets what was made of this window's values: whoever reads them again much later makes it again, so that
    /// it takes no memory in between.
    pub fn forget(&self) {
        self.allocation.memo.forget(&self.remembered().0);
    }

    pub(crate) fn remember<T: Send + Sync + 'static>(
        &self,
        made: T,
        replaces: impl Fn(&T) -> bool,
        of_recording: bool,
    ) {
        let memo = &self.allocation.memo;
        memo.add(self.remembered(), made, replaces, of_recording);
    }

    /// By what the allocation remembers what was made of this window.
    fn remembered(&self) -> (Range<usize>, DType) {
        (self.offset..self.offset + self.words(), self.dtype)
    }

    /// The words of the allocation that elements of this window touch.
    fn words_of(&self, elements: &Range<usize>) -> Range<usize> {
        let per_word = self.dtype.per_word();
        let first = self.offset.saturating_add(elements.start / per_word);
        let end = elements.end.div_ceil(per_word);
        first..self.offset.saturating_add(end)
    }

    /// The block that the words lie in; a planned buffer's own until it has its place.
    pub(crate) fn block(&self) -> &Arc<Block> {
        self.allocation.block.placed().0
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

/// A change in place that a recorded graph makes at every replay; it holds no memory.
pub(crate) struct NotedChange {
    allocation: Weak<Allocation>,
    words: Range<usize>,
}

impl NotedChange {
    /// Notes the change once more. The tape is not walked by a replay: what was recorded stays.
    pub fn again(&self) {
        if let Some(allocation) = self.allocation.upgrade() {
            allocation.note_change(self.words.clone(), false);
        }
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
