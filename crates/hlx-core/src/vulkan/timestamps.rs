//! Timestamps: before and after each launch of a timed command buffer, and of a whole one.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use ash::vk;
use vulkano::VulkanObject;
use vulkano::query::{QueryPool, QueryPoolCreateInfo, QueryResultFlags, QueryType};

use super::{VulkanDevice, translate_validated};
use crate::error::CoreError;
use crate::timing::{TimingCollector, Work};

/// Launches that one command buffer can time; later ones go untimed.
const TIMED_LAUNCHES: u32 = 8192;

/// The queries of one command buffer and the launches they time.
pub(super) struct LaunchTimestamps {
    device: Arc<VulkanDevice>,
    queries: Arc<QueryPool>,
    launches: Vec<(&'static str, Work)>,
}

impl LaunchTimestamps {
    pub fn new(device: &Arc<VulkanDevice>) -> Result<Self, CoreError> {
        Ok(Self {
            device: Arc::clone(device),
            queries: query_pool(device, 2 * TIMED_LAUNCHES)?,
            launches: Vec::new(),
        })
    }

    /// Records the reset that must precede the first timestamp.
    pub fn reset(&self, commands: vk::CommandBuffer) {
        reset(&self.device, commands, &self.queries, 2 * TIMED_LAUNCHES);
    }

    /// Records the timestamp before a launch; the result is for [`LaunchTimestamps::after`].
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
        stamp(&self.device, commands, &self.queries, query);
    }

    /// Adds the times of the last run to the collected ones; the run must be done.
    pub fn collect(&self, timings: &TimingCollector) -> Result<(), CoreError> {
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
            timings.add(name, work, pair[0] as f64 * period_ns, elapsed * period_ns);
        }
        Ok(())
    }
}

/// The time of a whole command buffer: two queries.
pub(super) struct Clock {
    device: Arc<VulkanDevice>,
    queries: Arc<QueryPool>,
    /// The last run's time in nanoseconds; 0 before it is known.
    nanoseconds: AtomicU64,
}

impl Clock {
    /// Makes a clock; none where the device's queue has no timestamps.
    pub fn new(device: &Arc<VulkanDevice>) -> Result<Option<Self>, CoreError> {
        if !device.has_timestamps {
            return Ok(None);
        }
        Ok(Some(Self {
            device: Arc::clone(device),
            queries: query_pool(device, 2)?,
            nanoseconds: AtomicU64::new(0),
        }))
    }

    /// Records the first timestamp, at the command buffer's start.
    pub fn start(&self, commands: vk::CommandBuffer) {
        reset(&self.device, commands, &self.queries, 2);
        stamp(&self.device, commands, &self.queries, 0);
    }

    /// Records the last timestamp, at the command buffer's end.
    pub fn stop(&self, commands: vk::CommandBuffer) {
        stamp(&self.device, commands, &self.queries, 1);
    }

    /// Reads the last run's time. A run after it may have reset the queries already: then the
    /// time stays what it was.
    pub fn read(&self) {
        let mut ticks = [0_u64; 2];
        let flags = QueryResultFlags::empty();
        if let Ok(true) = self.queries.get_results(0..2, &mut ticks, flags) {
            let elapsed = ticks[1].saturating_sub(ticks[0]) as f64;
            let nanoseconds = (elapsed * self.device.timestamp_period_ns) as u64;
            self.nanoseconds.store(nanoseconds, Ordering::Relaxed);
        }
    }

    /// The last run's time in nanoseconds, once it is known.
    pub fn measured_ns(&self) -> Option<f64> {
        match self.nanoseconds.load(Ordering::Relaxed) {
            0 => None,
            nanoseconds => Some(nanoseconds as f64),
        }
    }
}

fn query_pool(device: &Arc<VulkanDevice>, count: u32) -> Result<Arc<QueryPool>, CoreError> {
    let create_info = QueryPoolCreateInfo {
        query_count: count,
        ..QueryPoolCreateInfo::query_type(QueryType::Timestamp)
    };
    QueryPool::new(Arc::clone(&device.device), create_info)
        .map_err(|error| translate_validated(&device.info.name, "create a query pool", error))
}

/// Records the reset of all queries, which precedes their timestamps.
fn reset(device: &VulkanDevice, commands: vk::CommandBuffer, queries: &QueryPool, count: u32) {
    let reset = device.device.fns().v1_0.cmd_reset_query_pool;
    // SAFETY: the query pool lives as long as the command buffer, which is being recorded.
    unsafe { reset(commands, queries.handle(), 0, count) };
}

/// Records a timestamp.
fn stamp(device: &VulkanDevice, commands: vk::CommandBuffer, queries: &QueryPool, query: u32) {
    let write = device.device.fns().v1_0.cmd_write_timestamp;
    let stage = vk::PipelineStageFlags::BOTTOM_OF_PIPE;
    // SAFETY: the query was reset at the command buffer's start and is written once.
    unsafe { write(commands, stage, queries.handle(), query) };
}
