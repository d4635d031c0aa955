//! A graph: a recorded sequence of launches that is replayed with one submission.

use std::sync::Arc;

use crate::context::{Backend, Context};
use crate::error::CoreError;
use crate::launch::CpuLaunch;
use crate::memory::{MemoryStatistics, PlannedMemory, TensorPool};
use crate::vulkan::RecordedStream;

/// Launches recorded by [`Context::record`], with the memory they allocated.
///
/// Inputs that change between replays are uploaded into buffers that the launches read.
pub struct Graph {
    work: Work,
    context: Context,
}

enum Work {
    Cpu(Vec<CpuLaunch>, Arc<TensorPool>),
    Vulkan(Arc<RecordedStream>, PlannedMemory),
}

impl Graph {
    pub(crate) fn cpu(context: Context, launches: Vec<CpuLaunch>, pool: Arc<TensorPool>) -> Self {
        Self {
            work: Work::Cpu(launches, pool),
            context,
        }
    }

    pub(crate) fn vulkan(
        context: Context,
        recorded: RecordedStream,
        memory: PlannedMemory,
    ) -> Self {
        Self {
            work: Work::Vulkan(Arc::new(recorded), memory),
            context,
        }
    }

    /// Runs the launches after all work launched so far.
    ///
    /// # Errors
    /// [`CoreError::DeviceLost`] or what the driver answers.
    pub fn replay(&self) -> Result<(), CoreError> {
        match (&self.work, self.context.backend()) {
            (Work::Vulkan(recorded, _), Backend::Vulkan(stream)) => stream.replay(recorded),
            (Work::Cpu(launches, _), _) => {
                self.context.replay_cpu(launches);
                Ok(())
            }
            (Work::Vulkan(..), Backend::Cpu(_)) => Err(CoreError::invalid(
                "replay",
                "a Vulkan graph on the CPU device",
            )),
        }
    }

    /// The number of launches.
    pub fn len(&self) -> usize {
        match &self.work {
            Work::Cpu(launches, _) => launches.len(),
            Work::Vulkan(recorded, _) => recorded.launches(),
        }
    }

    /// Whether nothing was recorded.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The memory that the graph works in. On a Vulkan device most of it is shared with the
    /// context's other graphs.
    pub fn memory(&self) -> MemoryStatistics {
        match &self.work {
            Work::Cpu(_, pool) => pool.statistics(),
            Work::Vulkan(_, memory) => memory.statistics,
        }
    }
}
