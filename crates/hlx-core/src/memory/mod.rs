//! Device memory: few large blocks, sub-allocated, reused in stream order.

mod arena;
mod block;
mod buffer;
mod changes;
mod memo;
mod plan;
mod pool;

pub use arena::MemoryArena;
pub(crate) use block::{
    Block, BlockAllocator, BlockMemory, BlockSource, CpuMemory, HostAllocator, Placement,
};
pub(crate) use buffer::Allocation;
pub use buffer::Buffer;
pub(crate) use buffer::NotedChange;
pub(crate) use changes::Changes;
pub use changes::{last_moment, next_moment};
pub(crate) use memo::Memo;
pub(crate) use plan::{Heirs, Lifetimes, MemoryPlan, PlannedMemory};
pub use pool::{MemoryStatistics, TensorPool};

pub(crate) use crate::sizes::ALIGNMENT_WORDS;
