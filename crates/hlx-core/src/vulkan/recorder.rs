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

use super::descriptors::DescriptorSets;
use super::hazards::{Hazards, Range};
use super::pipeline::Pipeline;
use super::staging::HostRange;
use super::timing::Timing;
use super::{VulkanDevice, check_raw, translate, translate_validated};
use crate::error::CoreError;
use crate::launch::Binding;
use crate::memory::{ALIGNMENT_WORDS, Block, BlockMemory, Buffer};
use crate::profile::{Profiler, Work};

/// A command buffer being recorded.
pub(super) struct Recorder {
    device: Arc<VulkanDevice>,
    command_buffer: CommandPoolAlloc,
    sets: DescriptorSets,
    hazards: Hazards,
    blocks: HashMap<u64, Arc<Block>>,
    pipelines: HashMap<usize, Arc<Pipeline>>,
    bound: usize,
    launches: usize,
    timing: Option<Timing>,
    // Last, so that the command buffer and the sets go first.
    pool: CommandPool,
}

/// A finished command buffer with what it uses; may be submitted any number of times. The pools
/// are not touched until they are dropped; they stand in locks because they may not be shared.
pub(crate) struct Recorded {
    handle: vk::CommandBuffer,
    launches: usize,
    timing: Option<Timing>,
    _sets: Mutex<DescriptorSets>,
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
            sets: DescriptorSets::new(Arc::clone(device)),
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
            timing.reset(self.handle());
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
        (name, work): (&'static str, Work),
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
        let start = self.stamp_before(name, work);
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
            let mut buffers = Vec::with_capacity(bindings.len());
            for binding in bindings {
                buffers.push(self.descriptor(name, binding.buffer())?);
            }
            let set = self.sets.make(set_layout.handle(), &buffers)?;
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
        let work = Work::of(&[Binding::Write(buffer)]);
        let start = self.stamp_before("fill", work);
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
        let work = Work::of(&[Binding::Read(source), Binding::Write(target)]);
        let start = self.stamp_before("copy", work);
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

    fn stamp_before(&mut self, name: &'static str, work: Work) -> Option<u32> {
        let commands = self.handle();
        self.timing.as_mut()?.before(commands, name, work)
    }

    fn stamp_after(&self, start: Option<u32>) {
        if let (Some(index), Some(timing)) = (start, &self.timing) {
            timing.after(self.handle(), index);
        }
    }

    /// Ends the recording.
    pub fn finish(self) -> Result<Recorded, CoreError> {
        // SAFETY: the command buffer is being recorded.
        let result = unsafe { (self.fns().end_command_buffer)(self.handle()) };
        check_raw(&self.device.info.name, "end a command buffer", result)?;
        Ok(Recorded {
            handle: self.command_buffer.handle(),
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
        self.timing
            .as_ref()
            .map_or(Ok(()), |timing| timing.collect(profiler))
    }
}
