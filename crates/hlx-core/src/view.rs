//! A launch's window of memory and what it does with it.

use std::sync::Arc;

use crate::dtype::DType;
use crate::memory::{ALIGNMENT_WORDS, Block};
use crate::sizes::align_words;

/// A range of words of one block.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Range {
    pub block: u64,
    pub start: usize,
    pub end: usize,
}

impl Range {
    pub fn bytes(&self) -> u64 {
        (self.end - self.start) as u64 * 4
    }

    pub fn overlaps(&self, other: &Self) -> bool {
        self.block == other.block && self.start < other.end && other.start < self.end
    }

    /// Whether every word of the other range is in this one.
    pub fn covers(&self, other: &Self) -> bool {
        self.block == other.block && self.start <= other.start && other.end <= self.end
    }
}

/// What a launch does to a range of words.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Access {
    pub range: Range,
    pub writes: bool,
}

impl Access {
    /// Whether the order of both matters: they share a word that one of them writes.
    pub fn conflicts(&self, other: &Self) -> bool {
        (self.writes || other.writes) && self.range.overlaps(&other.range)
    }
}

/// A window of memory and what a command does with it. It holds the memory, not the
/// buffer, whose words may go to another one once the command has run. A caller that submits
/// a command buffer more than once holds the buffers.
#[derive(Clone)]
pub(crate) struct View {
    pub block: Arc<Block>,
    pub offset: usize,
    /// In words.
    pub len: usize,
    pub reads: bool,
    pub writes: bool,
    /// Whether it may take the memory of the command's first window ([`Binding::Replace`](crate::Binding::Replace)).
    pub replaces: bool,
    /// Whether an earlier command has written the same values ([`Binding::Rewrite`](crate::Binding::Rewrite)).
    pub rewrites: bool,
    /// The number of elements.
    pub elements: usize,
    pub dtype: DType,
}

impl View {
    pub fn block_id(&self) -> u64 {
        self.block.placed().0.id
    }

    /// Whether it is the whole of its block.
    pub fn is_whole(&self) -> bool {
        self.offset == 0 && align_words(self.len) == self.block.words
    }

    /// The block and the word in it, where they lie now: a planned buffer's own block until it has
    /// its place. An empty window at the block's end lies in its last words.
    pub fn placed(&self) -> (&Arc<Block>, usize) {
        let (block, offset) = self.block.placed();
        let start = offset + self.offset;
        if self.len == 0 && start >= block.words {
            return (block, block.words.saturating_sub(ALIGNMENT_WORDS));
        }
        (block, start)
    }

    /// The words that a dispatch binds, likewise. An empty window binds one, because Vulkan has no
    /// empty range; it is not read, but the device may hold it to be, so it is ordered as a read.
    pub fn range(&self) -> Range {
        let (block, start) = self.placed();
        Range {
            block: block.id,
            start,
            end: start + self.len.max(1),
        }
    }

    pub fn access(&self) -> Access {
        Access {
            range: self.range(),
            writes: self.writes,
        }
    }

    pub fn bytes(&self) -> u64 {
        self.len as u64 * 4
    }
}
