//! Timestamps before and after each launch of a profiled command buffer.

use std::sync::Arc;

use ash::vk;
use vulkano::VulkanObject;
use vulkano::query::{QueryPool, QueryPoolCreateInfo, QueryResultFlags, QueryType};

use super::{VulkanDevice, translate_validated};
use crate::error::CoreError;
use crate::profile::{Profiler, Work};

/// Launches that one profiled command buffer can time; later ones go untimed.
const TIMED_LAUNCHES: u32 = 8192;

/// The queries of one command buffer and the launches they time.
pub(super) struct Timing {
    device: Arc<VulkanDevice>,
    queries: Arc<QueryPool>,
    launches: Vec<(&'static str, Work)>,
}

impl Timing {
    pub fn new(device: &Arc<VulkanDevice>) -> Result<Self, CoreError> {
        let create_info = QueryPoolCreateInfo {
            query_count: 2 * TIMED_LAUNCHES,
            ..QueryPoolCreateInfo::query_type(QueryType::Timestamp)
        };
        let queries = QueryPool::new(Arc::clone(&device.device), create_info).map_err(|error| {
            translate_validated(&device.info.name, "create a query pool", error)
        })?;
        Ok(Self {
            device: Arc::clone(device),
            queries,
            launches: Vec::new(),
        })
    }

    /// Records the reset that must stand before the first timestamp.
    pub fn reset(&self, commands: vk::CommandBuffer) {
        let reset = self.device.device.fns().v1_0.cmd_reset_query_pool;
        // SAFETY: the query pool lives as long as the command buffer, which is being recorded.
        unsafe { reset(commands, self.queries.handle(), 0, 2 * TIMED_LAUNCHES) };
    }

    /// Records the timestamp before a launch; the answer goes to [`Timing::after`].
    pub fn before(
        &mut self,
        commands: vk::CommandBuffer,
        name: &'static str,
        work: Work,
    ) -> Option<u32> {
        let index = self.launches.len() as u32;
        if index >= TIMED_LAUNCHES {
            return None;
        }
        self.launches.push((name, work));
        self.stamp(commands, 2 * index);
        Some(index)
    }

    /// Records the timestamp after a launch.
    pub fn after(&self, commands: vk::CommandBuffer, index: u32) {
        self.stamp(commands, 2 * index + 1);
    }

    fn stamp(&self, commands: vk::CommandBuffer, query: u32) {
        let write = self.device.device.fns().v1_0.cmd_write_timestamp;
        let stage = vk::PipelineStageFlags::BOTTOM_OF_PIPE;
        // SAFETY: the query was reset at the command buffer's start and is written once.
        unsafe { write(commands, stage, self.queries.handle(), query) };
    }

    /// Adds the times of the last run to the profile; the run must be done.
    pub fn collect(&self, profiler: &Profiler) -> Result<(), CoreError> {
        if self.launches.is_empty() {
            return Ok(());
        }
        let count = self.launches.len() as u32 * 2;
        let mut ticks = vec![0_u64; count as usize];
        self.queries
            .get_results(0..count, &mut ticks, QueryResultFlags::WAIT)
            .map_err(|error| {
                translate_validated(&self.device.info.name, "read timestamps", error)
            })?;
        let period_ns = self.device.timestamp_period_ns;
        for (&(name, work), pair) in self.launches.iter().zip(ticks.chunks_exact(2)) {
            let elapsed = pair[1].saturating_sub(pair[0]) as f64;
            profiler.add(name, work, pair[0] as f64 * period_ns, elapsed * period_ns);
        }
        Ok(())
    }
}
