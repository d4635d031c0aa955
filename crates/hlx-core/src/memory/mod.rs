//! Device memory: few large blocks, sub-allocated, reused in stream order.

mod arena;
mod block;
mod buffer;
mod changes;
mod plan;
mod pool;

pub use arena::MemoryArena;
pub(crate) use block::{Block, BlockAllocator, BlockMemory, BlockSource, HostAllocator, Placement};
pub(crate) use buffer::Allocation;
pub use buffer::Buffer;
pub(crate) use buffer::NotedChange;
pub(crate) use changes::Changes;
pub use changes::{last_moment, next_moment};
pub(crate) use plan::{Heirs, Lifetimes, MemoryPlan, PlannedMemory};
pub use pool::{MemoryStatistics, TensorPool};

/// Every allocation starts at a multiple of this many words: 256 bytes, the largest storage
/// buffer alignment that Vulkan allows a device to require.
pub const ALIGNMENT_WORDS: usize = 64;

/// Rounds a length in words up to the allocation unit.
pub fn align_words(len: usize) -> usize {
    len.div_ceil(ALIGNMENT_WORDS) * ALIGNMENT_WORDS
}
