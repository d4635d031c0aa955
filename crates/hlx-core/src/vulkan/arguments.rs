//! What a dispatch works on: windows of memory, push constants and workgroups, and their check
//! against the device's limits.

use std::sync::Arc;

use ash::vk;
use vulkano::VulkanObject;

use super::VulkanDevice;
use super::pace::Groups;
use crate::error::CoreError;
use crate::memory::{ALIGNMENT_WORDS, Block, BlockMemory};
use crate::view::View;

/// The Vulkan buffer of a window and its first byte, with the block that owns them.
pub(super) fn place<'a>(
    view: &'a View,
    name: &str,
) -> Result<(vk::Buffer, u64, &'a Arc<Block>), CoreError> {
    let (block, start) = view.placed();
    let BlockMemory::Vulkan(memory) = &block.memory else {
        return Err(CoreError::invalid(
            name,
            "a buffer of the CPU device, or of a recording that failed, on a Vulkan device",
        ));
    };
    Ok((memory.handle(), start as u64 * 4, block))
}

/// What a dispatch works on.
pub(crate) struct Arguments<'a> {
    pub views: &'a [View],
    pub push: &'a [u8],
    pub groups: Groups,
}

/// Checks a launch's arguments against the device's limits.
pub(super) fn check(
    device: &VulkanDevice,
    name: &str,
    views: &[View],
    push: &[u8],
    groups: [u32; 3],
) -> Result<(), CoreError> {
    let properties = device.device.physical_device().properties();
    let limit = device.info.max_binding_words;
    for (index, view) in views.iter().enumerate() {
        let start = view.range().start;
        if start % ALIGNMENT_WORDS != 0 {
            let reason = format!(
                "binding {index} starts at word {start} of its block, not at a multiple of \
                 {ALIGNMENT_WORDS}"
            );
            return Err(CoreError::invalid(name, reason));
        }
        if view.len as u64 > limit {
            let reason = format!(
                "binding {index} has {} words, {} binds at most {limit}",
                view.len, device.info.name
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
