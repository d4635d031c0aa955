//! An arena: one block and the list of its free ranges.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::Block;

/// One block of device memory, handed out in aligned ranges: best fit, neighbours joined when
/// they are freed.
pub struct MemoryArena {
    pub(crate) block: Arc<Block>,
    /// Start and length, in words, of every free range; none touches another.
    free: BTreeMap<usize, usize>,
}

impl MemoryArena {
    pub(crate) fn new(block: Arc<Block>) -> Self {
        let free = BTreeMap::from([(0, block.words)]);
        Self { block, free }
    }

    /// Takes `words` words from the smallest free range that holds them.
    pub(crate) fn take(&mut self, words: usize) -> Option<usize> {
        let (&start, &len) = self
            .free
            .iter()
            .filter(|&(_, &len)| len >= words)
            .min_by_key(|&(_, &len)| len)?;
        self.free.remove(&start);
        if len > words {
            self.free.insert(start + words, len - words);
        }
        Some(start)
    }

    /// Frees a range and joins it with its free neighbours.
    pub(crate) fn give_back(&mut self, mut start: usize, mut words: usize) {
        if let Some((&before, &len)) = self.free.range(..start).next_back()
            && before + len == start
        {
            self.free.remove(&before);
            start = before;
            words += len;
        }
        if let Some(len) = self.free.remove(&(start + words)) {
            words += len;
        }
        self.free.insert(start, words);
    }

    /// The arena's size in bytes.
    pub fn capacity_bytes(&self) -> u64 {
        self.block.words as u64 * 4
    }

    /// The bytes not handed out.
    pub fn free_bytes(&self) -> u64 {
        self.free.values().sum::<usize>() as u64 * 4
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.free.len() == 1 && self.free.get(&0) == Some(&self.block.words)
    }
}
