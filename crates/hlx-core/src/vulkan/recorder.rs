//! Records one command buffer: dispatches, copies and fills, with a barrier where a hazard asks
//! for one, and keeps alive what they use.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use ash::vk;
use vulkano::VulkanObject;
use vulkano::command_buffer::CommandBufferLevel;
use vulkano::command_buffer::pool::{
    CommandBufferAllocateInfo, CommandPool, CommandPoolAlloc, CommandPoolCreateInfo,
};
use vulkano::descriptor_set::layout::DescriptorType;
use vulkano::descriptor_set::pool::{DescriptorPool, DescriptorPoolCreateInfo};
use vulkano::query::{QueryPool, QueryPoolCreateInfo, QueryResultFlags, QueryType};

use super::hazards::{Hazards, Range};
use super::pipeline::Pipeline;
use super::staging::HostRange;
use super::{VulkanDevice, check_raw, translate, translate_validated};
use crate::error::CoreError;
use crate::launch::Binding;
use crate::memory::{ALIGNMENT_WORDS, Block, BlockMemory, Buffer};
use crate::profile::Profiler;

/// Descriptor sets a pool holds before the next is made.
const SETS_PER_POOL: u32 = 256;
/// Storage buffers a descriptor pool holds; eight a set on average is more than HLX's kernels use.
const BUFFERS_PER_POOL: u32 = 8 * SETS_PER_POOL;
/// Launches that one profiled command buffer can time.
const TIMED_LAUNCHES: u32 = 8192;

/// A command buffer being recorded.
pub(super) struct Recorder {
    device: Arc<VulkanDevice>,
    command_buffer: CommandPoolAlloc,
    sets: Vec<DescriptorPool>,
    sets_left: u32,
    buffers_left: u32,
    hazards: Hazards,
    blocks: HashMap<u64, Arc<Block>>,
    pipelines: HashMap<usize, Arc<Pipeline>>,
    bound: usize,
    launches: usize,
    timing: Option<Timing>,
    // Last, so that the command buffer and the sets go first.
    pool: CommandPool,
}

/// Timestamps before and after each launch.
struct Timing {
    queries: Arc<QueryPool>,
    names: Vec<&'static str>,
}

/// A finished command buffer with what it uses; may be submitted any number of times. The pools
/// are not touched until they are dropped; they stand in locks because they may not be shared.
pub(crate) struct Recorded {
    device: Arc<VulkanDevice>,
    handle: vk::CommandBuffer,
    launches: usize,
    timing: Option<Timing>,
    _sets: Mutex<Vec<DescriptorPool>>,
    _blocks: Vec<Arc<Block>>,
    _pipelines: Vec<Arc<Pipeline>>,
    _command_buffer: CommandPoolAlloc,
    _pool: Mutex<CommandPool>,
}

fn compute_and_transfer() -> vk::PipelineStageFlags {
    vk::PipelineStageFlags::COMPUTE_SHADER | vk::PipelineStageFlags::TRANSFER
}

fn writes() -> vk::AccessFlags {
    vk::AccessFlags::SHADER_WRITE | vk::AccessFlags::TRANSFER_WRITE
}

fn reads() -> vk::AccessFlags {
    vk::AccessFlags::SHADER_READ | vk::AccessFlags::TRANSFER_READ
}

fn range_of(buffer: &Buffer) -> Range {
    let start = buffer.offset();
    Range {
        block: buffer.block().id,
        start,
        end: start + buffer.len(),
    }
}

impl Recorder {
    /// Begins a command buffer that waits for all earlier ones.
    pub fn begin(device: &Arc<VulkanDevice>, profiling: bool) -> Result<Self, CoreError> {
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
        let timing = if profiling {
            Some(Timing::new(device)?)
        } else {
            None
        };
        let recorder = Self {
            device: Arc::clone(device),
            command_buffer,
            sets: Vec::new(),
            sets_left: 0,
            buffers_left: 0,
            hazards: Hazards::default(),
            blocks: HashMap::new(),
            pipelines: HashMap::new(),
            bound: 0,
            launches: 0,
            timing,
            pool,
        };
        recorder.start()?;
        Ok(recorder)
    }

    fn fns(&self) -> &ash::DeviceFnV1_0 {
        &self.device.device.fns().v1_0
    }

    fn handle(&self) -> vk::CommandBuffer {
        self.command_buffer.handle()
    }

    fn start(&self) -> Result<(), CoreError> {
        // A graph may be submitted again before its last submission is done.
        let info = vk::CommandBufferBeginInfo::default()
            .flags(vk::CommandBufferUsageFlags::SIMULTANEOUS_USE);
        // SAFETY: the command buffer is fresh and no other thread has it.
        let result = unsafe { (self.fns().begin_command_buffer)(self.handle(), &info) };
        check_raw(&self.device.info.name, "begin a command buffer", result)?;
        if let Some(timing) = &self.timing {
            // SAFETY: the query pool lives as long as the command buffer.
            unsafe {
                (self.fns().cmd_reset_query_pool)(
                    self.handle(),
                    timing.queries.handle(),
                    0,
                    2 * TIMED_LAUNCHES,
                );
            }
        }
        self.barrier();
        Ok(())
    }

    /// Makes everything before visible to everything after.
    fn barrier(&self) {
        self.memory_barrier(
            compute_and_transfer(),
            writes(),
            compute_and_transfer(),
            writes() | reads(),
        );
    }

    fn memory_barrier(
        &self,
        source_stage: vk::PipelineStageFlags,
        source: vk::AccessFlags,
        target_stage: vk::PipelineStageFlags,
        target: vk::AccessFlags,
    ) {
        let barrier = vk::MemoryBarrier::default()
            .src_access_mask(source)
            .dst_access_mask(target);
        // SAFETY: the command buffer is being recorded; the barrier is a live local.
        unsafe {
            (self.fns().cmd_pipeline_barrier)(
                self.handle(),
                source_stage,
                target_stage,
                vk::DependencyFlags::empty(),
                1,
                &barrier,
                0,
                std::ptr::null(),
                0,
                std::ptr::null(),
            );
        }
    }

    /// Puts a barrier if the accesses conflict with work under way, and notes them.
    fn order(&mut self, reads: &[Range], writes: &[Range]) {
        if self.timing.is_some() || self.hazards.conflicts(reads, writes) {
            self.barrier();
            self.hazards.clear();
        }
        self.hazards.add(reads, writes);
    }

    /// The number of launches, copies and fills so far.
    pub fn launches(&self) -> usize {
        self.launches
    }

    /// Records a dispatch. The caller has checked that written bindings overlap no other.
    pub fn dispatch(
        &mut self,
        name: &'static str,
        pipeline: &Arc<Pipeline>,
        bindings: &[Binding<'_>],
        push: &[u8],
        groups: [u32; 3],
    ) -> Result<(), CoreError> {
        self.check(name, bindings, push, groups)?;
        if groups.contains(&0) {
            return Ok(());
        }
        let reads: Vec<Range> = bindings
            .iter()
            .filter(|b| b.reads())
            .map(|b| range_of(b.buffer()))
            .collect();
        let writes: Vec<Range> = bindings
            .iter()
            .filter(|b| b.writes())
            .map(|b| range_of(b.buffer()))
            .collect();
        self.order(&reads, &writes);
        self.bind(name, pipeline, bindings, push)?;
        let start = self.stamp_before(name);
        // SAFETY: pipeline, set and push constants are bound; group counts are within limits.
        unsafe { (self.fns().cmd_dispatch)(self.handle(), groups[0], groups[1], groups[2]) };
        self.stamp_after(start);
        self.launches += 1;
        Ok(())
    }

    fn check(
        &self,
        name: &str,
        bindings: &[Binding<'_>],
        push: &[u8],
        groups: [u32; 3],
    ) -> Result<(), CoreError> {
        let properties = self.device.device.physical_device().properties();
        let limit = self.device.info.max_binding_words;
        for (index, binding) in bindings.iter().enumerate() {
            let buffer = binding.buffer();
            if buffer.offset() % ALIGNMENT_WORDS != 0 {
                let reason = format!(
                    "binding {index} starts at word {} of its block, not at a multiple of {ALIGNMENT_WORDS}",
                    buffer.offset()
                );
                return Err(CoreError::invalid(name, reason));
            }
            if buffer.len() as u64 > limit {
                let reason = format!(
                    "binding {index} has {} words, {} binds at most {limit}",
                    buffer.len(),
                    self.device.info.name
                );
                return Err(CoreError::invalid(name, reason));
            }
        }
        if push.len() as u32 > properties.max_push_constants_size {
            let reason = format!(
                "{} bytes of push constants, the device takes {}",
                push.len(),
                properties.max_push_constants_size
            );
            return Err(CoreError::invalid(name, reason));
        }
        let most = properties.max_compute_work_group_count;
        if groups.iter().zip(most).any(|(&count, most)| count > most) {
            let reason = format!("{groups:?} workgroups, the device takes {most:?}");
            return Err(CoreError::invalid(name, reason));
        }
        Ok(())
    }

    /// Binds pipeline, buffers and push constants.
    fn bind(
        &mut self,
        name: &str,
        pipeline: &Arc<Pipeline>,
        bindings: &[Binding<'_>],
        push: &[u8],
    ) -> Result<(), CoreError> {
        let key = Arc::as_ptr(pipeline) as usize;
        let (layout, compute) = (pipeline.layout.handle(), vk::PipelineBindPoint::COMPUTE);
        if self.bound != key {
            self.bound = key;
            self.pipelines
                .entry(key)
                .or_insert_with(|| Arc::clone(pipeline));
            // SAFETY: the pipeline is kept alive by `pipelines`.
            unsafe {
                (self.fns().cmd_bind_pipeline)(self.handle(), compute, pipeline.pipeline.handle());
            }
        }
        if let Some(set_layout) = &pipeline.set_layout {
            let set = self.descriptor_set(name, set_layout.handle(), bindings)?;
            // SAFETY: the set is from a pool that this recorder keeps, made with this layout.
            unsafe {
                (self.fns().cmd_bind_descriptor_sets)(
                    self.handle(),
                    compute,
                    layout,
                    0,
                    1,
                    &set,
                    0,
                    std::ptr::null(),
                );
            }
        }
        if !push.is_empty() {
            // SAFETY: the bytes live through the call; the layout's range has this size.
            unsafe {
                (self.fns().cmd_push_constants)(
                    self.handle(),
                    layout,
                    vk::ShaderStageFlags::COMPUTE,
                    0,
                    push.len() as u32,
                    push.as_ptr().cast(),
                );
            }
        }
        Ok(())
    }

    /// Makes a descriptor set of storage buffers 0, 1, 2, ...
    fn descriptor_set(
        &mut self,
        name: &str,
        layout: vk::DescriptorSetLayout,
        bindings: &[Binding<'_>],
    ) -> Result<vk::DescriptorSet, CoreError> {
        let count = bindings.len() as u32;
        if self.sets_left == 0 || self.buffers_left < count {
            let create_info = DescriptorPoolCreateInfo {
                max_sets: SETS_PER_POOL,
                pool_sizes: [(DescriptorType::StorageBuffer, BUFFERS_PER_POOL.max(count))]
                    .into_iter()
                    .collect(),
                ..DescriptorPoolCreateInfo::default()
            };
            let pool = DescriptorPool::new(Arc::clone(&self.device.device), create_info).map_err(
                |error| {
                    translate_validated(&self.device.info.name, "create a descriptor pool", error)
                },
            )?;
            self.sets.push(pool);
            self.sets_left = SETS_PER_POOL;
            self.buffers_left = BUFFERS_PER_POOL.max(count);
        }
        let Some(pool) = self.sets.last() else {
            return Err(CoreError::invalid(name, "no descriptor pool"));
        };
        let info = vk::DescriptorSetAllocateInfo {
            descriptor_pool: pool.handle(),
            descriptor_set_count: 1,
            p_set_layouts: &layout,
            ..vk::DescriptorSetAllocateInfo::default()
        };
        let mut set = vk::DescriptorSet::null();
        // SAFETY: pool and layout are alive; `set` has room for the one set asked for.
        let result = unsafe {
            (self.fns().allocate_descriptor_sets)(self.device.device.handle(), &info, &mut set)
        };
        check_raw(&self.device.info.name, "allocate a descriptor set", result)?;
        self.sets_left -= 1;
        self.buffers_left -= count;
        let mut infos = Vec::with_capacity(bindings.len());
        for binding in bindings {
            infos.push(self.descriptor(name, binding.buffer())?);
        }
        let writes: Vec<vk::WriteDescriptorSet<'_>> = infos
            .iter()
            .enumerate()
            .map(|(index, info)| {
                vk::WriteDescriptorSet::default()
                    .dst_set(set)
                    .dst_binding(index as u32)
                    .descriptor_type(vk::DescriptorType::STORAGE_BUFFER)
                    .buffer_info(std::slice::from_ref(info))
            })
            .collect();
        // SAFETY: the set is fresh; the buffers are kept alive by `blocks`.
        unsafe {
            (self.fns().update_descriptor_sets)(
                self.device.device.handle(),
                writes.len() as u32,
                writes.as_ptr(),
                0,
                std::ptr::null(),
            );
        }
        Ok(set)
    }

    fn descriptor(
        &mut self,
        name: &str,
        buffer: &Buffer,
    ) -> Result<vk::DescriptorBufferInfo, CoreError> {
        Ok(vk::DescriptorBufferInfo {
            buffer: self.keep(name, buffer)?,
            offset: buffer.offset() as u64 * 4,
            // An empty window binds one word: Vulkan has no empty range.
            range: buffer.len().max(1) as u64 * 4,
        })
    }

    /// Keeps the buffer's block alive and returns its Vulkan buffer.
    fn keep(&mut self, name: &str, buffer: &Buffer) -> Result<vk::Buffer, CoreError> {
        let block = buffer.block();
        let BlockMemory::Vulkan(memory) = &block.memory else {
            return Err(CoreError::invalid(
                name,
                "a buffer of the CPU device on a Vulkan device",
            ));
        };
        self.blocks
            .entry(block.id)
            .or_insert_with(|| Arc::clone(block));
        Ok(memory.handle())
    }

    /// Records a fill with one word.
    pub fn fill(&mut self, buffer: &Buffer, word: u32) -> Result<(), CoreError> {
        let handle = self.keep("fill", buffer)?;
        if buffer.is_empty() {
            return Ok(());
        }
        self.order(&[], &[range_of(buffer)]);
        let (offset, bytes) = (buffer.offset() as u64 * 4, buffer.len() as u64 * 4);
        let start = self.stamp_before("fill");
        // SAFETY: the range lies inside the buffer, in whole words.
        unsafe { (self.fns().cmd_fill_buffer)(self.handle(), handle, offset, bytes, word) };
        self.stamp_after(start);
        self.launches += 1;
        Ok(())
    }

    /// Records a copy between device buffers of equal length that do not overlap.
    pub fn copy(&mut self, source: &Buffer, target: &Buffer) -> Result<(), CoreError> {
        let (from, to) = (self.keep("copy", source)?, self.keep("copy", target)?);
        self.order(&[range_of(source)], &[range_of(target)]);
        let start = self.stamp_before("copy");
        let (source_offset, target_offset) =
            (source.offset() as u64 * 4, target.offset() as u64 * 4);
        self.copy_raw(
            from,
            source_offset,
            to,
            target_offset,
            source.len() as u64 * 4,
        );
        self.stamp_after(start);
        self.launches += 1;
        Ok(())
    }

    /// Records a copy from staging memory.
    pub fn upload(&mut self, source: HostRange, target: &Buffer) -> Result<(), CoreError> {
        let to = self.keep("upload", target)?;
        self.order(&[], &[range_of(target)]);
        let (offset, bytes) = (target.offset() as u64 * 4, target.len() as u64 * 4);
        self.copy_raw(source.buffer, source.offset, to, offset, bytes);
        self.launches += 1;
        Ok(())
    }

    /// Records a copy to staging memory, made visible to the host.
    pub fn read_back(&mut self, source: &Buffer, target: HostRange) -> Result<(), CoreError> {
        let from = self.keep("download", source)?;
        self.order(&[range_of(source)], &[]);
        let (offset, bytes) = (source.offset() as u64 * 4, source.len() as u64 * 4);
        self.copy_raw(from, offset, target.buffer, target.offset, bytes);
        self.memory_barrier(
            vk::PipelineStageFlags::TRANSFER,
            vk::AccessFlags::TRANSFER_WRITE,
            vk::PipelineStageFlags::HOST,
            vk::AccessFlags::HOST_READ,
        );
        self.launches += 1;
        Ok(())
    }

    fn copy_raw(
        &self,
        from: vk::Buffer,
        source_offset: u64,
        to: vk::Buffer,
        target_offset: u64,
        bytes: u64,
    ) {
        if bytes == 0 {
            return;
        }
        let region = vk::BufferCopy {
            src_offset: source_offset,
            dst_offset: target_offset,
            size: bytes,
        };
        // SAFETY: both ranges lie inside live buffers and do not overlap.
        unsafe { (self.fns().cmd_copy_buffer)(self.handle(), from, to, 1, &region) };
    }

    fn stamp_before(&mut self, name: &'static str) -> Option<u32> {
        let timing = self.timing.as_mut()?;
        let index = timing.names.len() as u32;
        if index >= TIMED_LAUNCHES {
            return None;
        }
        timing.names.push(name);
        let queries = timing.queries.handle();
        self.stamp(queries, 2 * index);
        Some(index)
    }

    fn stamp_after(&self, start: Option<u32>) {
        if let (Some(index), Some(timing)) = (start, &self.timing) {
            self.stamp(timing.queries.handle(), 2 * index + 1);
        }
    }

    fn stamp(&self, queries: vk::QueryPool, index: u32) {
        let stage = vk::PipelineStageFlags::BOTTOM_OF_PIPE;
        // SAFETY: the query was reset at the command buffer's start and is written once.
        unsafe { (self.fns().cmd_write_timestamp)(self.handle(), stage, queries, index) };
    }

    /// Ends the recording.
    pub fn finish(self) -> Result<Recorded, CoreError> {
        // SAFETY: the command buffer is being recorded.
        let result = unsafe { (self.fns().end_command_buffer)(self.handle()) };
        check_raw(&self.device.info.name, "end a command buffer", result)?;
        Ok(Recorded {
            handle: self.command_buffer.handle(),
            device: self.device,
            launches: self.launches,
            timing: self.timing,
            _sets: Mutex::new(self.sets),
            _blocks: self.blocks.into_values().collect(),
            _pipelines: self.pipelines.into_values().collect(),
            _command_buffer: self.command_buffer,
            _pool: Mutex::new(self.pool),
        })
    }
}

impl Timing {
    fn new(device: &VulkanDevice) -> Result<Self, CoreError> {
        let create_info = QueryPoolCreateInfo {
            query_count: 2 * TIMED_LAUNCHES,
            ..QueryPoolCreateInfo::query_type(QueryType::Timestamp)
        };
        let queries = QueryPool::new(Arc::clone(&device.device), create_info).map_err(|error| {
            translate_validated(&device.info.name, "create a query pool", error)
        })?;
        Ok(Self {
            queries,
            names: Vec::new(),
        })
    }
}

impl Recorded {
    pub fn handle(&self) -> vk::CommandBuffer {
        self.handle
    }

    pub fn launches(&self) -> usize {
        self.launches
    }

    pub fn is_timed(&self) -> bool {
        self.timing.is_some()
    }

    /// Adds the times of the last run to the profile; the run must be done.
    pub fn collect(&self, profiler: &Profiler) -> Result<(), CoreError> {
        let Some(timing) = self
            .timing
            .as_ref()
            .filter(|timing| !timing.names.is_empty())
        else {
            return Ok(());
        };
        let count = timing.names.len() as u32 * 2;
        let mut ticks = vec![0_u64; count as usize];
        timing
            .queries
            .get_results(0..count, &mut ticks, QueryResultFlags::WAIT)
            .map_err(|error| {
                translate_validated(&self.device.info.name, "read timestamps", error)
            })?;
        for (name, pair) in timing.names.iter().zip(ticks.chunks_exact(2)) {
            let elapsed = pair[1].saturating_sub(pair[0]) as f64;
            profiler.add(name, elapsed * self.device.timestamp_period_ns * 1e-6);
        }
        Ok(())
    }
}
