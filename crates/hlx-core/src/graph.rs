//! A graph: a recorded sequence of launches that is replayed with one submission.

use std::sync::Arc;

use crate::context::{Backend, Context};
use crate::error::CoreError;
use crate::launch::CpuLaunch;
use crate::memory::{MemoryStatistics, TensorPool};
use crate::vulkan::RecordedStream;

/// Launches recorded by [`Context::record`], with the memory they allocated.
///
/// Inputs that change between replays are uploaded into buffers that the launches read.
pub struct Graph {
    work: Work,
    context: Context,
    pool: Arc<TensorPool>,
}

enum Work {
    Cpu(Vec<CpuLaunch>),
    Vulkan(Arc<RecordedStream>),
}

impl Graph {
    pub(crate) fn cpu(context: Context, launches: Vec<CpuLaunch>, pool: Arc<TensorPool>) -> Self {
        Self {
            work: Work::Cpu(launches),
            context,
            pool,
        }
    }

    pub(crate) fn vulkan(
        context: Context,
        recorded: RecordedStream,
        pool: Arc<TensorPool>,
    ) -> Self {
        Self {
            work: Work::Vulkan(Arc::new(recorded)),
            context,
            pool,
        }
    }

    /// Runs the launches after all work launched so far.
    ///
    /// # Errors
    /// [`CoreError::DeviceLost`] or what the driver answers.
    pub fn replay(&self) -> Result<(), CoreError> {
        match (&self.work, self.context.backend()) {
            (Work::Vulkan(recorded), Backend::Vulkan(stream)) => stream.replay(recorded),
            (Work::Cpu(launches), _) => {
                self.context.replay_cpu(launches);
                Ok(())
            }
            (Work::Vulkan(_), Backend::Cpu(_)) => Err(CoreError::invalid(
                "replay",
                "a Vulkan graph on the CPU device",
            )),
        }
    }

    /// The number of launches.
    pub fn len(&self) -> usize {
        match &self.work {
            Work::Cpu(launches) => launches.len(),
            Work::Vulkan(recorded) => recorded.launches(),
        }
    }

    /// Whether nothing was recorded.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The memory that the graph's own buffers take.
    pub fn memory(&self) -> MemoryStatistics {
        self.pool.statistics()
    }
}
