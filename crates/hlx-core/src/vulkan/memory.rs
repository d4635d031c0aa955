//! Memory of a Vulkan device: blocks on the device, and buffers that the host sees, each an allocation of its own.

use std::sync::Arc;

use ash::vk;
use vulkano::VulkanObject;
use vulkano::buffer::sys::RawBuffer;
use vulkano::buffer::{Buffer, BufferCreateInfo, BufferUsage};
use vulkano::device::Device;
use vulkano::device::physical::PhysicalDevice;
use vulkano::memory::{
    DeviceMemory, ExternalMemoryHandleTypes, MemoryAllocateInfo, MemoryMapInfo,
    MemoryPropertyFlags, ResourceMemory,
};

use super::{VulkanDevice, translate_validated};
use crate::device_info::DeviceInfo;
use crate::environment;
use crate::error::CoreError;
use crate::memory::{BlockAllocator, BlockMemory};

const NOT_EXPORTED: ExternalMemoryHandleTypes = ExternalMemoryHandleTypes::empty();

/// Memory that the host writes or reads, mapped as long as it lives.
pub(super) struct HostMemory {
    pub buffer: Arc<Buffer>,
    pub pointer: *mut u8,
    pub bytes: usize,
}

// SAFETY: the pointer is to mapped memory that `buffer` owns; users lock around it.
unsafe impl Send for HostMemory {}

impl HostMemory {
    /// Appends the first `words` words; the device must be done writing them.
    pub fn read(&self, words: usize, out: &mut Vec<u32>) {
        debug_assert!(words * 4 <= self.bytes);
        // SAFETY: the words lie inside the mapped memory, which the device no longer writes.
        let words = unsafe { std::slice::from_raw_parts(self.pointer.cast::<u32>(), words) };
        out.extend_from_slice(words);
    }
}

/// The size and index of the largest device-local heap.
pub(super) fn device_local_heap(physical: &PhysicalDevice) -> (u64, usize) {
    let memory = physical.memory_properties();
    memory
        .memory_types
        .iter()
        .filter(|kind| {
            kind.property_flags
                .intersects(MemoryPropertyFlags::DEVICE_LOCAL)
        })
        .map(|kind| kind.heap_index as usize)
        .map(|heap| (memory.memory_heaps[heap].size, heap))
        .max_by_key(|&(size, _)| size)
        .unwrap_or((0, 0))
}

/// The first memory type with all `wanted` flags, preferring those with `liked` too.
fn memory_type(
    physical: &PhysicalDevice,
    bits: u32,
    wanted: MemoryPropertyFlags,
    liked: MemoryPropertyFlags,
) -> Option<u32> {
    let types = &physical.memory_properties().memory_types;
    let find = |flags: MemoryPropertyFlags| {
        types.iter().enumerate().find_map(|(index, kind)| {
            let usable = bits & (1 << index) != 0 && kind.property_flags.contains(flags);
            usable.then_some(index as u32)
        })
    };
    find(wanted | liked).or_else(|| find(wanted))
}

/// The memory type of buffers on the device.
pub(super) fn device_local_type(device: &Arc<Device>, info: &DeviceInfo) -> Result<u32, CoreError> {
    let probe = raw_buffer(device, info, 4, NOT_EXPORTED)?;
    let bits = probe.memory_requirements().memory_type_bits;
    let none = MemoryPropertyFlags::empty();
    let local = MemoryPropertyFlags::DEVICE_LOCAL;
    let found = memory_type(device.physical_device(), bits, local, none);
    found.ok_or_else(|| CoreError::invalid("open device", "no device-local memory type"))
}

impl VulkanDevice {
    /// Allocates a buffer that the host sees; `cached` for reading back.
    pub(super) fn allocate_host(&self, bytes: u64, cached: bool) -> Result<HostMemory, CoreError> {
        let raw = raw_buffer(&self.device, &self.info, bytes, NOT_EXPORTED)?;
        let wanted = MemoryPropertyFlags::HOST_VISIBLE | MemoryPropertyFlags::HOST_COHERENT;
        let liked = if cached {
            MemoryPropertyFlags::HOST_CACHED
        } else {
            MemoryPropertyFlags::empty()
        };
        let bits = raw.memory_requirements().memory_type_bits;
        let kind = memory_type(self.device.physical_device(), bits, wanted, liked)
            .ok_or_else(|| CoreError::invalid("staging", "no host-visible memory type"))?;
        let mut memory = self.allocate_memory(&raw, kind)?;
        let size = memory.allocation_size();
        memory
            .map(MemoryMapInfo {
                offset: 0,
                size,
                ..MemoryMapInfo::default()
            })
            .map_err(|error| translate_validated(&self.info.name, "map staging memory", error))?;
        let pointer = memory
            .mapping_state()
            .map(|state| state.ptr().as_ptr().cast::<u8>())
            .ok_or_else(|| CoreError::invalid("staging", "memory is not mapped"))?;
        let buffer = self.bind(raw, memory)?;
        Ok(HostMemory {
            buffer,
            pointer,
            bytes: bytes as usize,
        })
    }

    /// A buffer in memory that the host sees; kernels reach it over the bus.
    fn in_host(&self, words: usize) -> Result<BlockMemory, CoreError> {
        let raw = raw_buffer(&self.device, &self.info, words as u64 * 4, NOT_EXPORTED)?;
        let bits = raw.memory_requirements().memory_type_bits;
        let visible = MemoryPropertyFlags::HOST_VISIBLE | MemoryPropertyFlags::HOST_COHERENT;
        let types = &self
            .device
            .physical_device()
            .memory_properties()
            .memory_types;
        let usable = types.iter().enumerate().filter(|(index, kind)| {
            bits & (1 << index) != 0 && kind.property_flags.contains(visible)
        });
        let is_local =
            |flags: MemoryPropertyFlags| flags.contains(MemoryPropertyFlags::DEVICE_LOCAL);
        let kind = usable.min_by_key(|(_, kind)| is_local(kind.property_flags));
        let none = || CoreError::invalid("allocate host memory", "no host-visible memory type");
        let (kind, _) = kind.ok_or_else(none)?;
        let memory = self.allocate_memory(&raw, kind as u32)?;
        Ok(BlockMemory::Vulkan(self.bind(raw, memory)?))
    }

    fn allocate_memory(
        &self,
        raw: &RawBuffer,
        memory_type: u32,
    ) -> Result<DeviceMemory, CoreError> {
        let info = MemoryAllocateInfo {
            allocation_size: raw.memory_requirements().layout.size(),
            memory_type_index: memory_type,
            ..MemoryAllocateInfo::default()
        };
        DeviceMemory::allocate(Arc::clone(&self.device), info)
            .map_err(|error| translate_validated(&self.info.name, "allocate device memory", error))
    }

    pub(super) fn bind(
        &self,
        raw: RawBuffer,
        memory: DeviceMemory,
    ) -> Result<Arc<Buffer>, CoreError> {
        raw.bind_memory(ResourceMemory::new_dedicated(memory))
            .map(Arc::new)
            .map_err(|(error, _, _)| translate_validated(&self.info.name, "bind memory", error))
    }
}

impl BlockAllocator for VulkanDevice {
    /// Allocates one device-local buffer.
    fn allocate(&self, words: usize) -> Result<BlockMemory, CoreError> {
        let raw = raw_buffer(&self.device, &self.info, words as u64 * 4, NOT_EXPORTED)?;
        let memory = self.allocate_memory(&raw, self.memory_type)?;
        Ok(BlockMemory::Vulkan(self.bind(raw, memory)?))
    }

    /// Allocates one buffer in the host's memory: of a type that is not the device's own, where there is one.
    fn allocate_in_host(&self, words: usize) -> Option<Result<BlockMemory, CoreError>> {
        Some(self.in_host(words))
    }

    /// The bytes that HLX holds and those that the driver still grants. `HLX_MEMORY_LIMIT`
    /// (bytes) replaces them.
    fn budget_bytes(&self, held_bytes: u64) -> u64 {
        if let Some(limit) = environment::number("HLX_MEMORY_LIMIT") {
            return limit;
        }
        if !self.device.enabled_extensions().ext_memory_budget {
            return self.info.memory_bytes;
        }
        let mut budget = vk::PhysicalDeviceMemoryBudgetPropertiesEXT::default();
        let mut properties = vk::PhysicalDeviceMemoryProperties2::default().push_next(&mut budget);
        let physical = self.device.physical_device();
        let fns = physical.instance().fns();
        // SAFETY: the handle is alive, the structures are linked as the extension says.
        unsafe {
            (fns.v1_1.get_physical_device_memory_properties2)(physical.handle(), &mut properties);
        }
        let (_, heap_index) = device_local_heap(physical);
        let granted = budget.heap_budget[heap_index];
        let used = budget.heap_usage[heap_index];
        held_bytes.saturating_add(granted.saturating_sub(used))
    }
}

/// A buffer without memory; `exported` says how that will be exported.
pub(super) fn raw_buffer(
    device: &Arc<Device>,
    info: &DeviceInfo,
    bytes: u64,
    exported: ExternalMemoryHandleTypes,
) -> Result<RawBuffer, CoreError> {
    let create_info = BufferCreateInfo {
        size: bytes,
        external_memory_handle_types: exported,
        usage: BufferUsage::STORAGE_BUFFER | BufferUsage::TRANSFER_SRC | BufferUsage::TRANSFER_DST,
        ..BufferCreateInfo::default()
    };
    RawBuffer::new(Arc::clone(device), create_info)
        .map_err(|error| translate_validated(&info.name, "create a buffer", error))
}
