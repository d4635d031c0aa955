//! The pool that tensors come from: arenas that grow on demand.

use std::sync::{Arc, Mutex, PoisonError};

use super::{Allocation, BlockSource, Buffer, MemoryArena};
use crate::error::CoreError;

/// The smallest block that is allocated: 32 MiB.
const SMALLEST_BLOCK_WORDS: usize = 8 << 20;

/// Bytes in use and held, for reports and tests.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MemoryStatistics {
    /// Bytes handed out now.
    pub in_use_bytes: u64,
    /// The largest that `in_use_bytes` has been.
    pub peak_bytes: u64,
    /// Bytes held from the driver or the system, handed out or not.
    pub held_bytes: u64,
    /// Buffers alive.
    pub buffers: u64,
}

/// Sub-allocates buffers from arenas. A freed range is reused at once: work on a device
/// runs in the order it was launched, so the next owner's work comes after the last one's.
pub struct TensorPool {
    source: Arc<BlockSource>,
    state: Mutex<PoolState>,
}

#[derive(Default)]
struct PoolState {
    arenas: Vec<MemoryArena>,
    in_use_bytes: u64,
    peak_bytes: u64,
    buffers: u64,
}

impl TensorPool {
    pub(crate) fn new(source: Arc<BlockSource>) -> Arc<Self> {
        Arc::new(Self {
            source,
            state: Mutex::new(PoolState::default()),
        })
    }

    fn state(&self) -> std::sync::MutexGuard<'_, PoolState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes `len` words, uninitialised.
    pub(crate) fn allocate(self: &Arc<Self>, len: usize) -> Result<Buffer, CoreError> {
        let words = self.source.aligned(len)?;
        let mut state = self.state();
        let found = state.arenas.iter_mut().find_map(|arena| {
            arena
                .take(words)
                .map(|offset| (Arc::clone(&arena.block), offset))
        });
        let (block, offset) = match found {
            Some(found) => found,
            None => self.grow(&mut state, words)?,
        };
        state.in_use_bytes += words as u64 * 4;
        state.peak_bytes = state.peak_bytes.max(state.in_use_bytes);
        state.buffers += 1;
        drop(state);
        let pool = Some(Arc::clone(self));
        Ok(Buffer::whole(
            Allocation::new(pool, block, offset, words),
            len,
        ))
    }

    /// Adds an arena that holds `words`; when memory is short, frees empty arenas first.
    fn grow(
        &self,
        state: &mut PoolState,
        words: usize,
    ) -> Result<(Arc<super::Block>, usize), CoreError> {
        let roomy = words.max(SMALLEST_BLOCK_WORDS);
        let block = self.source.allocate(roomy).or_else(|_| {
            state.arenas.retain(|arena| !arena.is_empty());
            self.source.allocate(words)
        })?;
        let mut arena = MemoryArena::new(Arc::clone(&block));
        let offset = arena.take(words).ok_or_else(|| {
            CoreError::invalid(
                "allocate",
                format!("a fresh block of {roomy} words lacks {words}"),
            )
        })?;
        state.arenas.push(arena);
        Ok((block, offset))
    }

    pub(super) fn give_back(&self, allocation: &Allocation) {
        let mut state = self.state();
        state.in_use_bytes -= allocation.words as u64 * 4;
        state.buffers -= 1;
        if let Some(arena) = state
            .arenas
            .iter_mut()
            .find(|arena| arena.block.id == allocation.block.id)
        {
            arena.give_back(allocation.offset, allocation.words);
        }
    }

    /// Bytes in use and held by this pool.
    pub fn statistics(&self) -> MemoryStatistics {
        let state = self.state();
        MemoryStatistics {
            in_use_bytes: state.in_use_bytes,
            peak_bytes: state.peak_bytes,
            held_bytes: state.arenas.iter().map(MemoryArena::capacity_bytes).sum(),
            buffers: state.buffers,
        }
    }

    /// Frees arenas that hold no buffer.
    pub fn trim(&self) {
        self.state().arenas.retain(|arena| !arena.is_empty());
    }
}
