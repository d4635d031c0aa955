//! A graph: a recorded sequence of launches that is replayed with one call.

use std::ops::Range;
use std::sync::Arc;

use crate::cpu_stream::CpuGraph;
use crate::error::CoreError;
use crate::memory::{MemoryStatistics, NotedChange};
use crate::stream::Stream;
use crate::vulkan::VulkanGraph;

/// Launches recorded by [`Device::record`](crate::Device::record), with all buffers that they touch.
///
/// Inputs that change between replays are uploaded into buffers that the launches read.
pub struct Graph {
    launches: Launches,
    stream: Arc<Stream>,
    /// What the launches change in place in buffers that others may hold.
    changes: Vec<NotedChange>,
}

pub(crate) enum Launches {
    Cpu(CpuGraph),
    Vulkan(VulkanGraph),
}

impl Graph {
    pub(crate) fn new(stream: Arc<Stream>, launches: Launches, changes: Vec<NotedChange>) -> Self {
        Self {
            launches,
            stream,
            changes,
        }
    }

    /// Runs the launches after all work launched so far.
    ///
    /// # Errors
    /// [`CoreError::DeviceLost`] or the driver's error.
    pub fn replay(&self) -> Result<(), CoreError> {
        self.changes.iter().for_each(NotedChange::again);
        self.replay_part(0..usize::MAX)
    }

    /// As [`Graph::replay`], of a graph with watched windows ([`Device::record_watched`](crate::Device::record_watched)): as soon as the
    /// launches that write the first windows up to the k-th are launched, before the rest of the graph,
    /// calls `is_final` with k. What it launches runs there. It must not replay another graph, whose
    /// memory is this one's too.
    ///
    /// # Errors
    /// As [`Graph::replay`], and what `is_final` returns.
    pub fn replay_watched<E: From<CoreError>>(
        &self,
        mut is_final: impl FnMut(usize) -> Result<(), E>,
    ) -> Result<(), E> {
        self.changes.iter().for_each(NotedChange::again);
        let cuts = match &self.launches {
            Launches::Cpu(graph) => graph.cuts(),
            Launches::Vulkan(graph) => graph.cuts(),
        };
        let mut begun = 0;
        for (window, &cut) in cuts.iter().enumerate() {
            if begun < cut {
                self.replay_part(begun..cut)?;
                begun = cut;
            }
            is_final(window)?;
        }
        Ok(self.replay_part(begun..usize::MAX)?)
    }

    /// Runs a part of the graph, cut at a window; the last goes to the end, and may be empty.
    fn replay_part(&self, part: Range<usize>) -> Result<(), CoreError> {
        match (&self.launches, &*self.stream) {
            (Launches::Vulkan(graph), Stream::Vulkan(stream)) => stream.replay(graph, part),
            (Launches::Cpu(graph), Stream::Cpu(stream)) => stream.replay(graph, part),
            _ => Err(CoreError::invalid("replay", "a graph of another device")),
        }
    }

    /// The number of launches.
    pub fn len(&self) -> usize {
        match &self.launches {
            Launches::Cpu(graph) => graph.len(),
            Launches::Vulkan(graph) => graph.len(),
        }
    }

    /// Whether nothing was recorded.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The memory that the graph works in. On a Vulkan device most of it is shared with the
    /// device's other graphs.
    pub fn memory(&self) -> MemoryStatistics {
        match &self.launches {
            Launches::Cpu(graph) => graph.memory(),
            Launches::Vulkan(graph) => graph.memory(),
        }
    }
}
