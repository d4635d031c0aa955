//! Kernels of your own: a pipeline from SPIR-V, its bindings, and recorded command buffers.
//!
//! Adding two vectors (`c[i] = a[i] + b[i]`; `words` is the module that
//! `shaders/examples/vector_add.comp` compiles to):
//!
//! ```
//! use hlx_core::{CommandBufferPool, ComputePipeline, Device, DescriptorBindingBuilder};
//!
//! # fn main() -> Result<(), hlx_core::CoreError> {
//! # let bytes = include_bytes!("../spv/examples/vector_add.spv");
//! # let words: Vec<u32> = bytes.chunks_exact(4)
//! #     .map(|b| u32::from_le_bytes([b[0], b[1], b[2], b[3]])).collect();
//! let Ok(device) = Device::open("vulkan") else { return Ok(()) }; // no Vulkan here
//! let a = device.buffer_of(&[1.0, 2.0, 3.0])?;
//! let b = device.buffer_of(&[10.0, 20.0, 30.0])?;
//! let c = device.alloc(3)?;
//!
//! // SAFETY: the module is valid, and checks its index against the count that it is given.
//! let pipeline = unsafe {
//!     ComputePipeline::from_spirv(&device, "vector_add", &words, "main", &[], 3, 4)
//! }?;
//! let bindings = DescriptorBindingBuilder::new().read(&a).read(&b).write(&c).build(&pipeline)?;
//! let pool = CommandBufferPool::new(&device)?;
//! let commands = pool.record(|recorder| {
//!     recorder.dispatch(&pipeline, &bindings, &3_u32.to_le_bytes(), [1, 1, 1])
//! })?;
//! commands.submit()?;
//! assert_eq!(device.download::<f32>(&c)?, [11.0, 22.0, 33.0]);
//! # Ok(())
//! # }
//! ```

use std::sync::Arc;

use crate::device::Device;
use crate::error::CoreError;
use crate::launch::{Binding, check_bindings};
use crate::memory::Buffer;
use crate::stream::Stream;
use crate::timing::Work;
use crate::view::View;
use crate::vulkan::{
    Arguments, Groups, Measured, Pipeline, Recorded, Recorder, VulkanDevice, VulkanStream,
};

fn stream<'a>(device: &'a Device, what: &str) -> Result<&'a VulkanStream, CoreError> {
    match device.stream() {
        Stream::Vulkan(stream) => Ok(stream),
        Stream::Cpu(_) => Err(CoreError::invalid(
            what,
            "needs a Vulkan device, not the CPU",
        )),
    }
}

/// A compute pipeline made from SPIR-V of your own. Its buffers are descriptor set 0, bindings
/// 0, 1, 2, ...
#[derive(Clone)]
pub struct ComputePipeline {
    name: &'static str,
    inner: Arc<Pipeline>,
    bindings: usize,
    push_bytes: usize,
}

impl ComputePipeline {
    /// Makes a pipeline from SPIR-V words, with specialization constants as (id, word),
    /// `bindings` storage buffers and `push_bytes` bytes of push constants. Constants 1000 and
    /// 1001 say whether the device fuses and flushes by itself, to a shader that declares them.
    /// Buffers are never read or written past their ends, whatever index the shader computes.
    ///
    /// # Safety
    /// Drivers trust a module: an invalid one is undefined behaviour. The caller guarantees that the
    /// words are valid SPIR-V for Vulkan 1.2, whose storage buffers and push constants are those
    /// given here. `hlx-contract` checks modules from outside, and calls this for them.
    ///
    /// # Errors
    /// [`CoreError::Invalid`] on the CPU device or without the entry point;
    /// [`CoreError::Vulkan`] with the driver's message.
    pub unsafe fn from_spirv(
        device: &Device,
        name: &'static str,
        words: &[u32],
        entry_point: &str,
        specialization: &[(u32, u32)],
        bindings: usize,
        push_bytes: usize,
    ) -> Result<Self, CoreError> {
        let vulkan = stream(device, name)?.device();
        let inner = vulkan.pipelines().create(
            vulkan,
            name,
            words,
            entry_point,
            specialization,
            bindings,
            push_bytes,
        )?;
        Ok(Self {
            name,
            inner: Arc::new(inner),
            bindings,
            push_bytes,
        })
    }

    fn check_count(&self, found: usize) -> Result<(), CoreError> {
        let expected = self.bindings;
        if found == expected {
            return Ok(());
        }
        let reason = format!("{found} buffers bound, expected {expected}");
        Err(CoreError::invalid(self.name, reason))
    }

    /// Checks that the pipeline is of this device and takes these arguments.
    fn check(&self, vulkan: &VulkanDevice, n_buffers: usize, push: &[u8]) -> Result<(), CoreError> {
        if !self.inner.is_of(&vulkan.device) {
            let reason = format!("the pipeline is of another device than {}", vulkan.info);
            return Err(CoreError::invalid(self.name, reason));
        }
        self.check_count(n_buffers)?;
        if push.len() != self.push_bytes {
            let (found, expected) = (push.len(), self.push_bytes);
            let reason = format!("{found} bytes of push constants, expected {expected}");
            return Err(CoreError::invalid(self.name, reason));
        }
        Ok(())
    }
}

impl Device {
    /// Launches a pipeline of your own like a kernel of HLX's: after all work launched so far, timed with it, and
    /// recorded instead of run while a graph is being recorded. `bindings` are in binding order.
    ///
    /// # Errors
    /// [`CoreError::Invalid`] on the CPU device, and as [`CommandRecorder::dispatch`]; as [`Device::launch`].
    pub fn launch_pipeline(
        &self,
        pipeline: &ComputePipeline,
        bindings: &[Binding<'_>],
        push: &[u8],
        groups: [u32; 3],
    ) -> Result<(), CoreError> {
        let stream = stream(self, pipeline.name)?;
        pipeline.check(stream.device(), bindings.len(), push)?;
        check_bindings(pipeline.name, bindings, self.source())?;
        stream.launch_pipeline(pipeline.name, &pipeline.inner, bindings, push, groups)
    }
}

/// Which buffers a dispatch works on, and how; made by [`DescriptorBindingBuilder`].
#[derive(Clone)]
pub struct DescriptorBindings {
    buffers: Vec<(Buffer, Access)>,
}

#[derive(Clone, Copy)]
enum Access {
    Read,
    Write,
    ReadWrite,
}

/// Gathers the buffers of a dispatch in binding order.
#[derive(Default)]
pub struct DescriptorBindingBuilder {
    buffers: Vec<(Buffer, Access)>,
}

impl DescriptorBindingBuilder {
    /// Starts with no binding.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a buffer that is only read.
    #[must_use]
    pub fn read(self, buffer: &Buffer) -> Self {
        self.add(buffer, Access::Read)
    }

    /// Adds a buffer that is written.
    #[must_use]
    pub fn write(self, buffer: &Buffer) -> Self {
        self.add(buffer, Access::Write)
    }

    /// Adds a buffer that is read and written.
    #[must_use]
    pub fn read_write(self, buffer: &Buffer) -> Self {
        self.add(buffer, Access::ReadWrite)
    }

    fn add(mut self, buffer: &Buffer, access: Access) -> Self {
        self.buffers.push((buffer.clone(), access));
        self
    }

    /// Checks the number of buffers against the pipeline's.
    ///
    /// # Errors
    /// [`CoreError::Invalid`] if they differ.
    pub fn build(self, pipeline: &ComputePipeline) -> Result<DescriptorBindings, CoreError> {
        let bindings = DescriptorBindings {
            buffers: self.buffers,
        };
        pipeline.check_count(bindings.buffers.len())?;
        Ok(bindings)
    }
}

/// Records command buffers for one device.
pub struct CommandBufferPool {
    device: Device,
    vulkan: Arc<VulkanDevice>,
}

impl CommandBufferPool {
    /// Makes a pool for a Vulkan device.
    ///
    /// # Errors
    /// [`CoreError::Invalid`] on the CPU device.
    pub fn new(device: &Device) -> Result<Self, CoreError> {
        let vulkan = Arc::clone(stream(device, "command buffer pool")?.device());
        Ok(Self {
            device: device.clone(),
            vulkan,
        })
    }

    /// Records what `body` dispatches; barriers are put where a dispatch depends on another.
    ///
    /// # Errors
    /// What `body` returns, or the driver's error.
    pub fn record(
        &self,
        body: impl FnOnce(&mut CommandRecorder) -> Result<(), CoreError>,
    ) -> Result<RecordedCommands, CoreError> {
        let mut recorder = CommandRecorder {
            device: self.device.clone(),
            recorder: Recorder::begin(&self.vulkan, Measured::No, None)?,
            buffers: Vec::new(),
        };
        body(&mut recorder)?;
        Ok(RecordedCommands {
            device: recorder.device,
            recorded: Arc::new(recorder.recorder.finish()?),
            _buffers: recorder.buffers,
        })
    }
}

/// Takes dispatches while [`CommandBufferPool::record`] runs.
pub struct CommandRecorder {
    device: Device,
    recorder: Recorder,
    /// Every buffer that a dispatch uses.
    buffers: Vec<Buffer>,
}

impl CommandRecorder {
    /// Records a dispatch of `groups` workgroups.
    ///
    /// # Errors
    /// [`CoreError::OtherDevice`] for a buffer of another device; [`CoreError::Invalid`] for a
    /// pipeline of another device, another number of buffers or size of the push-constant block
    /// than the pipeline's, a written buffer that overlaps another, misaligned or oversized
    /// buffers, or more workgroups than the device takes.
    pub fn dispatch(
        &mut self,
        pipeline: &ComputePipeline,
        bindings: &DescriptorBindings,
        push: &[u8],
        groups: [u32; 3],
    ) -> Result<(), CoreError> {
        let vulkan = stream(&self.device, pipeline.name)?.device();
        pipeline.check(vulkan, bindings.buffers.len(), push)?;
        let list: Vec<Binding<'_>> = bindings
            .buffers
            .iter()
            .map(|(buffer, access)| match access {
                Access::Read => Binding::Read(buffer),
                Access::Write => Binding::Write(buffer),
                Access::ReadWrite => Binding::ReadWrite(buffer),
            })
            .collect();
        check_bindings(pipeline.name, &list, self.device.source())?;
        if let Some(index) = list
            .iter()
            .position(|binding| binding.buffer().is_unplaced())
        {
            let reason = format!("binding {index} is of a graph that is still being recorded");
            return Err(CoreError::invalid(pipeline.name, reason));
        }
        let views: Vec<View> = list.iter().map(View::of).collect();
        let arguments = Arguments {
            views: &views,
            push,
            groups: Groups::all(groups),
        };
        self.recorder
            .dispatch(pipeline.name, Work::of(&list), &pipeline.inner, &arguments)?;
        let buffers = bindings.buffers.iter().map(|(buffer, _)| buffer.clone());
        self.buffers.extend(buffers);
        Ok(())
    }
}

/// A recorded command buffer; may be submitted any number of times. It owns the buffers that its
/// dispatches use.
pub struct RecordedCommands {
    device: Device,
    recorded: Arc<Recorded>,
    _buffers: Vec<Buffer>,
}

impl RecordedCommands {
    /// Submits the commands after all work launched so far; does not wait.
    ///
    /// # Errors
    /// [`CoreError::DeviceLost`] or the driver's error.
    pub fn submit(&self) -> Result<(), CoreError> {
        stream(&self.device, "submit")?.submit_recorded(&self.recorded)
    }
}
