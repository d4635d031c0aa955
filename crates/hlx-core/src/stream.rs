//! The stream of work of either kind of device.

use crate::cpu_stream::CpuStream;
use crate::vulkan::VulkanStream;

/// A device's stream; both kinds have the same methods.
pub(crate) enum Stream {
    Cpu(CpuStream),
    Vulkan(Box<VulkanStream>),
}

/// Calls a method on the stream of a device, of whichever kind.
macro_rules! on_stream {
    ($device:expr, $stream:ident => $call:expr) => {
        match $device.stream() {
            Stream::Cpu($stream) => $call,
            Stream::Vulkan($stream) => $call,
        }
    };
}
pub(crate) use on_stream;
