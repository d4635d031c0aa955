//! The Vulkan side of `hlx-core`, cut by stage of life: instance, device, pipelines, recording,
//! submission.

mod arguments;
mod bfloat16;
mod descriptors;
mod device;
mod dots;
mod hazards;
mod instance;
mod matrices;
mod memory;
mod pace;
mod pipeline;
mod recorded;
mod recorder;
mod recording;
mod schedule;
mod sharing;
mod staging;
mod stream;
mod submissions;
mod timestamps;

use vulkano::{Validated, VulkanError};

pub(crate) use arguments::Arguments;
pub(crate) use device::{Modes, VulkanDevice, list};
pub(crate) use dots::DotProducts;
pub(crate) use instance::has_loader;
pub use instance::validation_messages;
pub(crate) use pace::{Groups, Pace};
pub(crate) use pipeline::Pipeline;
pub(crate) use recorded::Recorded;
pub(crate) use recorder::{Measured, Recorder};
pub use sharing::Timeline;
pub(crate) use stream::{HostCopy, PinnedWords, VulkanGraph, VulkanStream};

use crate::error::CoreError;

/// Translates a Vulkan result; the one place that distinguishes device loss and lack of memory.
pub(crate) fn translate(device: &str, during: &str, error: VulkanError) -> CoreError {
    match error {
        VulkanError::DeviceLost => CoreError::DeviceLost {
            device: device.to_owned(),
            during: during.to_owned(),
            hint: String::new(),
        },
        VulkanError::OutOfDeviceMemory | VulkanError::OutOfHostMemory => CoreError::OutOfMemory {
            device: device.to_owned(),
            requested: 0,
            in_use: 0,
            budget: 0,
        },
        other => CoreError::Vulkan {
            during: during.to_owned(),
            reason: other.to_string(),
        },
    }
}

/// As [`translate`], for calls that vulkano checks first.
pub(crate) fn translate_validated(
    device: &str,
    during: &str,
    error: Validated<VulkanError>,
) -> CoreError {
    match error {
        Validated::Error(error) => translate(device, during, error),
        Validated::ValidationError(error) => CoreError::Vulkan {
            during: during.to_owned(),
            reason: error.to_string(),
        },
    }
}

/// As [`translate`], for raw calls through the function table.
pub(crate) fn check_raw(
    device: &str,
    during: &str,
    result: ash::vk::Result,
) -> Result<(), CoreError> {
    match result {
        ash::vk::Result::SUCCESS => Ok(()),
        other => Err(translate(device, during, VulkanError::from(other))),
    }
}
