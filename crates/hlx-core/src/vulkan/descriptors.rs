//! Descriptor sets of one command buffer: storage buffers 0, 1, 2, ... from pools that grow.

use std::sync::Arc;

use ash::vk;
use vulkano::VulkanObject;
use vulkano::descriptor_set::layout::DescriptorType;
use vulkano::descriptor_set::pool::{DescriptorPool, DescriptorPoolCreateInfo};

use super::{VulkanDevice, check_raw, translate, translate_validated};
use crate::error::CoreError;

/// Descriptor sets a pool holds before the next is made.
const SETS_PER_POOL: u32 = 256;
/// Storage buffers a pool holds; eight a set on average is more than HLX's kernels use.
const BUFFERS_PER_POOL: u32 = 8 * SETS_PER_POOL;

/// The pools of one command buffer; they are freed with it, with all sets.
pub(super) struct DescriptorSets {
    device: Arc<VulkanDevice>,
    pools: Vec<DescriptorPool>,
    sets_left: u32,
    buffers_left: u32,
}

impl DescriptorSets {
    pub fn new(device: Arc<VulkanDevice>) -> Self {
        Self {
            device,
            pools: Vec::new(),
            sets_left: 0,
            buffers_left: 0,
        }
    }

    /// Frees all sets, which no command under way may use, and retains one pool for new ones.
    pub fn reset(&mut self) -> Result<(), CoreError> {
        self.pools.truncate(1);
        if let Some(pool) = self.pools.first() {
            // SAFETY: the caller guarantees that the sets are not in use.
            unsafe { pool.reset() }
                .map_err(|error| translate(&self.device.info.name, "reset descriptors", error))?;
            self.sets_left = SETS_PER_POOL;
            self.buffers_left = BUFFERS_PER_POOL;
        }
        Ok(())
    }

    /// Makes a set of these buffers. The caller holds them as long as the set.
    pub fn make(
        &mut self,
        layout: vk::DescriptorSetLayout,
        buffers: &[vk::DescriptorBufferInfo],
    ) -> Result<vk::DescriptorSet, CoreError> {
        let pool = self.pool_for(buffers.len() as u32)?;
        let (fns, device) = (&self.device.device.fns().v1_0, self.device.device.handle());
        let info = vk::DescriptorSetAllocateInfo {
            descriptor_pool: pool,
            descriptor_set_count: 1,
            p_set_layouts: &layout,
            ..vk::DescriptorSetAllocateInfo::default()
        };
        let mut set = vk::DescriptorSet::null();
        // SAFETY: pool and layout are alive; `set` has room for the one set.
        let result = unsafe { (fns.allocate_descriptor_sets)(device, &info, &mut set) };
        check_raw(&self.device.info.name, "allocate a descriptor set", result)?;
        // The bindings are consecutive and of one type, so one write fills them all.
        let write = vk::WriteDescriptorSet::default()
            .dst_set(set)
            .dst_binding(0)
            .descriptor_type(vk::DescriptorType::STORAGE_BUFFER)
            .buffer_info(buffers);
        // SAFETY: the set is fresh and used by no command yet; the buffers are alive.
        unsafe { (fns.update_descriptor_sets)(device, 1, &write, 0, std::ptr::null()) };
        Ok(set)
    }

    /// Returns a pool with room for one more set of `count` buffers, and reserves it.
    fn pool_for(&mut self, count: u32) -> Result<vk::DescriptorPool, CoreError> {
        if self.sets_left == 0 || self.buffers_left < count {
            let buffers = BUFFERS_PER_POOL.max(count);
            let create_info = DescriptorPoolCreateInfo {
                max_sets: SETS_PER_POOL,
                pool_sizes: [(DescriptorType::StorageBuffer, buffers)]
                    .into_iter()
                    .collect(),
                ..DescriptorPoolCreateInfo::default()
            };
            let pool = DescriptorPool::new(Arc::clone(&self.device.device), create_info);
            self.pools.push(pool.map_err(|error| {
                translate_validated(&self.device.info.name, "create a descriptor pool", error)
            })?);
            self.sets_left = SETS_PER_POOL;
            self.buffers_left = buffers;
        }
        self.sets_left -= 1;
        self.buffers_left -= count;
        match self.pools.last() {
            Some(pool) => Ok(pool.handle()),
            None => Err(CoreError::invalid("descriptor set", "no pool")),
        }
    }
}
