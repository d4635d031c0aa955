//! A finished command buffer with what it uses, and the pools that it leaves for the next one.

use std::sync::{Arc, Mutex};

use ash::vk;
use vulkano::command_buffer::CommandBufferLevel;
use vulkano::command_buffer::pool::{
    CommandBufferAllocateInfo, CommandPool, CommandPoolAlloc, CommandPoolCreateInfo,
    CommandPoolResetFlags,
};

use super::descriptors::DescriptorSets;
use super::pipeline::Pipeline;
use super::timestamps::{Clock, LaunchTimestamps};
use super::{VulkanDevice, translate, translate_validated};
use crate::error::CoreError;
use crate::memory::Block;
use crate::timing::TimingCollector;

/// A finished command buffer with what it uses; may be submitted any number of times. The pools
/// are not touched until they are dropped; they are in locks because they may not be shared.
pub(crate) struct Recorded {
    pub(super) handle: vk::CommandBuffer,
    pub(super) barriers: usize,
    pub(super) timestamps: Option<LaunchTimestamps>,
    pub(super) clock: Option<Clock>,
    pub(super) estimate_ns: f64,
    pub(super) sets: Mutex<DescriptorSets>,
    pub(super) _blocks: Vec<Arc<Block>>,
    pub(super) _pipelines: Vec<Arc<Pipeline>>,
    pub(super) command_buffer: CommandPoolAlloc,
    pub(super) pool: Mutex<CommandPool>,
}

impl Recorded {
    pub fn handle(&self) -> vk::CommandBuffer {
        self.handle
    }

    /// The number of barriers between launches.
    pub fn barriers(&self) -> usize {
        self.barriers
    }

    pub fn is_timed(&self) -> bool {
        self.timestamps.is_some()
    }

    /// How long a run takes, in nanoseconds: the last one's time where it is known, else the
    /// estimate.
    pub fn time_ns(&self) -> f64 {
        let measured = self.clock.as_ref().and_then(Clock::measured_ns);
        measured.unwrap_or(self.estimate_ns)
    }

    /// Reads the times of the last run, which must be done, and adds those of launches to the
    /// collected ones.
    pub fn collect(&self, timings: &TimingCollector) -> Result<(), CoreError> {
        if let Some(clock) = &self.clock {
            clock.read();
        }
        self.timestamps
            .as_ref()
            .map_or(Ok(()), |timestamps| timestamps.collect(timings))
    }

    /// Takes the command buffer apart for another; the device must be done with it.
    pub fn into_parts(self) -> Option<Parts> {
        let mut sets = self.sets.into_inner().ok()?;
        let pool = self.pool.into_inner().ok()?;
        sets.reset().ok()?;
        // SAFETY: the device is done with the pool's one command buffer.
        unsafe { pool.reset(CommandPoolResetFlags::empty()) }.ok()?;
        Some(Parts {
            sets,
            command_buffer: self.command_buffer,
            pool,
        })
    }
}

/// The pools of a command buffer that is done, to be used again.
pub(crate) struct Parts {
    pub(super) sets: DescriptorSets,
    pub(super) command_buffer: CommandPoolAlloc,
    pub(super) pool: CommandPool,
}

impl Parts {
    pub(super) fn new(device: &Arc<VulkanDevice>) -> Result<Self, CoreError> {
        let name = &device.info.name;
        let create_info = CommandPoolCreateInfo {
            queue_family_index: device.queue.queue_family_index(),
            ..CommandPoolCreateInfo::default()
        };
        let pool = CommandPool::new(Arc::clone(&device.device), create_info)
            .map_err(|error| translate_validated(name, "create a command pool", error))?;
        let allocate_info = CommandBufferAllocateInfo {
            level: CommandBufferLevel::Primary,
            command_buffer_count: 1,
            ..CommandBufferAllocateInfo::default()
        };
        let command_buffer = pool
            .allocate_command_buffers(allocate_info)
            .map_err(|error| translate(name, "allocate a command buffer", error))?
            .next()
            .ok_or_else(|| CoreError::invalid("record", "the driver gave no command buffer"))?;
        Ok(Self {
            sets: DescriptorSets::new(Arc::clone(device)),
            command_buffer,
            pool,
        })
    }
}
