//! Devices, memory, streams and graphs of HLX: Vulkan and the CPU behind one launch.
//!
//! A [`Device`] is one opened device with its memory and its stream of work. A kernel is
//! launched once for both kinds of device: [`Launch`] names the shader and its bindings for
//! Vulkan, a closure carries out the same specification on the CPU. Work runs in launch order;
//! [`Device::record`] records a sequence of launches as a [`Graph`] to replay.
//!
//! This crate knows Vulkan (through `vulkano`), the CPU device and the HLX arithmetic
//! ([`arith`]). It knows no operation, no gradient and no model.

pub mod arith;
mod arithmetic;
mod autocast;
pub mod bytes;
mod container;
pub mod cpu;
mod cpu_stream;
mod device;
mod device_info;
pub mod digest;
mod dispatch;
mod dtype;
pub mod environment;
mod error;
mod extensions;
pub mod files;
pub mod fusion;
mod graph;
mod launch;
mod machine;
mod memory;
mod multiversion;
mod no_gpu;
mod notice;
mod open;
mod peak;
mod printable;
mod probe;
mod probe_report;
mod recording;
mod saved_format;
mod shader;
pub mod sizes;
mod specification;
mod stream;
mod test_report;
pub mod testing;
mod timing;
mod tuning;
#[doc(hidden)] // For the code that `multiversion!` makes.
pub mod underflow;
mod unread;
mod view;
mod vulkan;
mod watched;

pub use arithmetic::{Arithmetic, Half, IntegerPath, MatrixShape};
pub use autocast::{Autocast, AutocastScope};
#[doc(hidden)]
pub use container::{container_lacks, is_container};
pub use device::{Device, HostBuffer, OpenRecording, PendingCopy, PendingDownload, SharedBuffer};
pub use device_info::{DeviceInfo, DeviceKind};
pub use dispatch::{
    CommandBufferPool, CommandRecorder, ComputePipeline, DescriptorBindingBuilder,
    DescriptorBindings, RecordedCommands,
};
pub use dtype::{Bool, DType, Element};
pub use error::CoreError;
pub use graph::Graph;
pub use launch::{
    Binding, CpuBindings, CpuBody, Launch, ReadSlice, WriteSlice, as_u32, groups_1d, push_bytes,
};
pub use memory::{Buffer, MemoryArena, MemoryStatistics, TensorPool, last_moment, next_moment};
#[doc(hidden)]
pub use no_gpu::why_no_gpu;
pub use notice::{warn_once, warn_once_of};
pub use peak::MULTIPLY_ADD;
pub use printable::{PrintableStream, printable, printable_lines};
pub use probe_report::{ProbeCheck, ProbeReport};
pub use saved_format::SavedFormat;
pub use shader::Shader;
pub use sizes::{ALIGNMENT_WORDS, align_words};
pub use specification::{FINITE_SINCE, SPECIFICATION};
pub use timing::{KernelTime, LaunchTime, TimingReport, Work};
pub use tuning::Tuning;
pub use vulkan::{Timeline, validation_messages};
