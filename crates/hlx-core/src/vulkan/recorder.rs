//! Writes one command buffer: dispatches, copies and fills, with a barrier where there is a hazard,
//! and holds what they use.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use ash::vk;
use vulkano::VulkanObject;
use vulkano::command_buffer::pool::{CommandPool, CommandPoolAlloc};

use super::arguments::{Arguments, check, place};
use super::descriptors::DescriptorSets;
use super::hazards::Hazards;
use super::pace::Groups;
use super::pipeline::Pipeline;
use super::recorded::{Parts, Recorded};
use super::staging::HostRange;
use super::timestamps::{Clock, LaunchTimestamps};
use super::{VulkanDevice, check_raw};
use crate::error::CoreError;
use crate::memory::Block;
use crate::timing::Work;
use crate::view::{Range, View};

/// A command buffer being recorded.
pub(crate) struct Recorder {
    device: Arc<VulkanDevice>,
    command_buffer: CommandPoolAlloc,
    sets: DescriptorSets,
    hazards: Hazards,
    blocks: HashMap<u64, Arc<Block>>,
    pipelines: HashMap<usize, Arc<Pipeline>>,
    bound: usize,
    launches: usize,
    barriers: usize,
    timestamps: Option<LaunchTimestamps>,
    clock: Option<Clock>,
    estimate_ns: f64,
    // Last, so that the command buffer and the sets go first.
    pool: CommandPool,
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

/// What is measured of a command buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Measured {
    /// Nothing.
    No,
    /// The time of all of it, at the price of two timestamps.
    Whole,
    /// The time of each launch, which then run one after the other.
    Launches,
}

impl Recorder {
    /// Begins a command buffer that waits for all earlier ones.
    pub fn begin(
        device: &Arc<VulkanDevice>,
        measured: Measured,
        reuse: Option<Parts>,
    ) -> Result<Self, CoreError> {
        let parts = match reuse {
            Some(parts) => parts,
            None => Parts::new(device)?,
        };
        let (timestamps, clock) = match measured {
            Measured::No => (None, None),
            Measured::Whole => (None, Clock::new(device)?),
            Measured::Launches => (Some(LaunchTimestamps::new(device)?), None),
        };
        let recorder = Self {
            device: Arc::clone(device),
            command_buffer: parts.command_buffer,
            sets: parts.sets,
            hazards: Hazards::default(),
            blocks: HashMap::new(),
            pipelines: HashMap::new(),
            bound: 0,
            launches: 0,
            barriers: 0,
            timestamps,
            clock,
            estimate_ns: 0.0,
            pool: parts.pool,
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
        if let Some(timestamps) = &self.timestamps {
            timestamps.reset(self.handle());
        }
        self.barrier();
        if let Some(clock) = &self.clock {
            clock.start(self.handle());
        }
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
        if self.timestamps.is_some() || self.hazards.conflicts(reads, writes) {
            self.barrier();
            self.barriers += 1;
            self.hazards.clear();
        }
        self.hazards.add(reads, writes);
    }

    /// The number of launches, copies and fills so far.
    pub fn launches(&self) -> usize {
        self.launches
    }

    /// Adds to the estimated time of the launches so far.
    pub fn add_estimate(&mut self, nanoseconds: f64) {
        self.estimate_ns += nanoseconds;
    }

    /// The estimated time of the launches so far, in nanoseconds.
    pub fn estimate_ns(&self) -> f64 {
        self.estimate_ns
    }

    /// Records a dispatch. The caller has checked that written bindings overlap no other, and made
    /// the pipeline for a base where the groups have one.
    pub fn dispatch(
        &mut self,
        name: &'static str,
        work: Work,
        pipeline: &Arc<Pipeline>,
        arguments: &Arguments<'_>,
    ) -> Result<(), CoreError> {
        let &Arguments {
            views,
            push,
            groups,
        } = arguments;
        let last = std::array::from_fn(|axis| groups.base[axis] + groups.count[axis]);
        check(&self.device, name, views, push, last)?;
        if groups.count.contains(&0) {
            return Ok(());
        }
        let ranges = |wanted: fn(&View) -> bool| -> Vec<Range> {
            let used = views.iter().filter(|view| wanted(view));
            used.map(View::range).collect()
        };
        self.order(&ranges(|view| view.reads), &ranges(|view| view.writes));
        self.bind(name, pipeline, views, push)?;
        let start = self.stamp_before(name, work);
        self.dispatch_bound(groups);
        self.stamp_after(start);
        self.launches += 1;
        Ok(())
    }

    fn dispatch_bound(&self, Groups { base, count }: Groups) {
        let (commands, [x, y, z]) = (self.handle(), count);
        if base == [0; 3] {
            // SAFETY: pipeline, set and push constants are bound; counts are within limits.
            unsafe { (self.fns().cmd_dispatch)(commands, x, y, z) };
        } else {
            let dispatch_base = self.device.device.fns().v1_1.cmd_dispatch_base;
            // SAFETY: as above; the pipeline was made for a base.
            unsafe { dispatch_base(commands, base[0], base[1], base[2], x, y, z) };
        }
    }

    /// Binds pipeline, buffers and push constants.
    fn bind(
        &mut self,
        name: &str,
        pipeline: &Arc<Pipeline>,
        views: &[View],
        push: &[u8],
    ) -> Result<(), CoreError> {
        let key = Arc::as_ptr(pipeline) as usize;
        let (layout, compute) = (pipeline.layout.handle(), vk::PipelineBindPoint::COMPUTE);
        if self.bound != key {
            self.bound = key;
            self.pipelines
                .entry(key)
                .or_insert_with(|| Arc::clone(pipeline));
            // SAFETY: the pipeline is held by `pipelines`.
            unsafe {
                (self.fns().cmd_bind_pipeline)(self.handle(), compute, pipeline.handle);
            }
        }
        if let Some(set_layout) = &pipeline.set_layout {
            let mut buffers = Vec::with_capacity(views.len());
            for view in views {
                buffers.push(self.descriptor(name, view)?);
            }
            let set = self.sets.make(set_layout.handle(), &buffers)?;
            // SAFETY: the set is from a pool that this recorder holds, made with this layout.
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
        view: &View,
    ) -> Result<vk::DescriptorBufferInfo, CoreError> {
        let (buffer, offset) = self.hold(name, view)?;
        Ok(vk::DescriptorBufferInfo {
            buffer,
            offset,
            range: view.range().bytes(),
        })
    }

    /// Keeps the window's block alive; returns its Vulkan buffer and the window's first byte.
    fn hold(&mut self, name: &str, view: &View) -> Result<(vk::Buffer, u64), CoreError> {
        let (buffer, offset, block) = place(view, name)?;
        self.blocks
            .entry(block.id)
            .or_insert_with(|| Arc::clone(block));
        Ok((buffer, offset))
    }

    /// Records a fill with one word.
    pub fn fill(&mut self, target: &View, word: u32) -> Result<(), CoreError> {
        let (handle, offset) = self.hold("fill", target)?;
        if target.len == 0 {
            return Ok(());
        }
        self.order(&[], &[target.range()]);
        let bytes = target.bytes();
        let start = self.stamp_before("fill", Work::transfer(bytes));
        // SAFETY: the range lies inside the buffer, in whole words.
        unsafe { (self.fns().cmd_fill_buffer)(self.handle(), handle, offset, bytes, word) };
        self.stamp_after(start);
        self.launches += 1;
        Ok(())
    }

    /// Records a copy between windows of equal length that do not overlap.
    pub fn copy(&mut self, source: &View, target: &View) -> Result<(), CoreError> {
        let (from, to) = (self.hold("copy", source)?, self.hold("copy", target)?);
        self.order(&[source.range()], &[target.range()]);
        let start = self.stamp_before("copy", Work::transfer(2 * source.bytes()));
        self.copy_raw(from, to, source.bytes());
        self.stamp_after(start);
        self.launches += 1;
        Ok(())
    }

    /// Records a copy from staging memory.
    pub(super) fn upload(&mut self, source: HostRange, target: &View) -> Result<(), CoreError> {
        let to = self.hold("upload", target)?;
        self.order(&[], &[target.range()]);
        self.copy_raw((source.buffer, source.offset), to, target.bytes());
        self.launches += 1;
        Ok(())
    }

    /// Records a copy to staging memory, made visible to the host.
    pub(super) fn read_back(&mut self, source: &View, target: HostRange) -> Result<(), CoreError> {
        let from = self.hold("download", source)?;
        self.order(&[source.range()], &[]);
        self.copy_raw(from, (target.buffer, target.offset), source.bytes());
        self.memory_barrier(
            vk::PipelineStageFlags::TRANSFER,
            vk::AccessFlags::TRANSFER_WRITE,
            vk::PipelineStageFlags::HOST,
            vk::AccessFlags::HOST_READ,
        );
        self.launches += 1;
        Ok(())
    }

    /// Copies from a buffer's byte to another's.
    fn copy_raw(&self, from: (vk::Buffer, u64), to: (vk::Buffer, u64), bytes: u64) {
        if bytes == 0 {
            return;
        }
        let region = vk::BufferCopy {
            src_offset: from.1,
            dst_offset: to.1,
            size: bytes,
        };
        // SAFETY: both ranges lie inside live buffers and do not overlap.
        unsafe { (self.fns().cmd_copy_buffer)(self.handle(), from.0, to.0, 1, &region) };
    }

    fn stamp_before(&mut self, name: &'static str, work: Work) -> Option<u32> {
        let commands = self.handle();
        self.timestamps.as_mut()?.before(commands, name, work)
    }

    fn stamp_after(&self, start: Option<u32>) {
        if let (Some(index), Some(timestamps)) = (start, &self.timestamps) {
            timestamps.after(self.handle(), index);
        }
    }

    /// Ends the recording.
    pub fn finish(self) -> Result<Recorded, CoreError> {
        if let Some(clock) = &self.clock {
            clock.stop(self.handle());
        }
        // SAFETY: the command buffer is being recorded.
        let result = unsafe { (self.fns().end_command_buffer)(self.handle()) };
        check_raw(&self.device.info.name, "end a command buffer", result)?;
        Ok(Recorded {
            handle: self.command_buffer.handle(),
            barriers: self.barriers,
            timestamps: self.timestamps,
            clock: self.clock,
            estimate_ns: self.estimate_ns,
            sets: Mutex::new(self.sets),
            _blocks: self.blocks.into_values().collect(),
            _pipelines: self.pipelines.into_values().collect(),
            command_buffer: self.command_buffer,
            pool: Mutex::new(self.pool),
        })
    }
}
