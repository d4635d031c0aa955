//! Memory and timeline semaphores that another library on the same GPU imports, by file descriptor.

use std::fs::File;
use std::sync::Arc;
use std::time::Duration;

use ash::vk;
use vulkano::VulkanObject;
use vulkano::device::physical::PhysicalDevice;
use vulkano::device::{Device, DeviceExtensions, DeviceFeatures, DeviceOwned};
use vulkano::memory::{
    DedicatedAllocation, DeviceMemory, ExternalMemoryHandleType, ExternalMemoryHandleTypes,
    MemoryAllocateInfo, MemoryImportInfo,
};
use vulkano::sync::semaphore::{
    ExternalSemaphoreHandleType, ExternalSemaphoreHandleTypes, Semaphore, SemaphoreCreateInfo,
    SemaphoreSignalInfo, SemaphoreType,
};

use super::memory::raw_buffer;
use super::{VulkanDevice, translate, translate_validated};
use crate::error::CoreError;
use crate::memory::BlockMemory;

/// Between two looks at a timeline.
const LOOK: Duration = Duration::from_micros(20);

/// A counter that work of this device and of another library wait for and raise.
#[derive(Clone)]
pub struct Timeline {
    pub(super) semaphore: Arc<Semaphore>,
    /// The device's name, for errors.
    device: Arc<str>,
}

impl Timeline {
    /// Waits on the host until the timeline has a value, looking for it again and again: the driver's own wait
    /// was seen to end milliseconds late where several threads wait (NVIDIA 580), and looks every 10 ms for a value
    /// that another library raises.
    ///
    /// # Errors
    /// [`CoreError::DeviceLost`]; the driver's error.
    pub fn wait(&self, value: u64) -> Result<(), CoreError> {
        let failed = |error| translate_validated(&self.device, "wait for a timeline", error);
        while self.semaphore.counter_value().map_err(failed)? < value {
            std::thread::sleep(LOOK);
        }
        Ok(())
    }

    /// Raises the timeline from the host, for work that would wait in vain.
    ///
    /// # Errors
    /// The driver's error.
    pub fn raise(&self, value: u64) -> Result<(), CoreError> {
        let info = SemaphoreSignalInfo {
            value,
            ..SemaphoreSignalInfo::default()
        };
        // SAFETY: the value is above all that were or will be raised to, as its caller says.
        unsafe { self.semaphore.signal_unchecked(info) }
            .map_err(|error| translate(&self.device, "raise a timeline", error))
    }

    /// Fails for a timeline of another device, whose handles mean nothing here.
    pub(super) fn check_device(&self, operation: &str, device: &Device) -> Result<(), CoreError> {
        check_device(operation, "the timeline", self.semaphore.device(), device)
    }
}

/// Fails for a thing of another device.
pub(super) fn check_device(
    operation: &str,
    thing: &str,
    found: &Device,
    expected: &Device,
) -> Result<(), CoreError> {
    match found == expected {
        true => Ok(()),
        false => Err(CoreError::invalid(
            operation,
            format!("{thing} is of another device"),
        )),
    }
}

/// A value of a timeline.
#[derive(Clone)]
pub(super) struct TimelineValue {
    pub timeline: Timeline,
    pub value: u64,
}

impl TimelineValue {
    pub fn handle(&self) -> vk::Semaphore {
        self.timeline.semaphore.handle()
    }
}

/// Whether memory and semaphores can be exported by file descriptor.
fn is_able(physical: &PhysicalDevice) -> bool {
    let extensions = physical.supported_extensions();
    let by_descriptor = extensions.khr_external_memory_fd && extensions.khr_external_semaphore_fd;
    cfg!(unix) && by_descriptor && physical.supported_features().timeline_semaphore
}

/// Turns on what exporting needs, where the device has it.
pub(super) fn enable(
    physical: &PhysicalDevice,
    extensions: &mut DeviceExtensions,
    features: &mut DeviceFeatures,
) {
    if is_able(physical) {
        extensions.khr_external_memory_fd = true;
        extensions.khr_external_semaphore_fd = true;
        features.timeline_semaphore = true;
    }
}

impl VulkanDevice {
    /// The number by which other libraries know the device, if it can share memory with them.
    pub fn sharing_uuid(&self) -> Option<[u8; 16]> {
        let physical = self.device.physical_device();
        let uuid = physical.properties().device_uuid;
        uuid.filter(|_| is_able(physical))
    }

    fn check_sharing(&self, operation: &str) -> Result<(), CoreError> {
        match self.sharing_uuid() {
            Some(_) => Ok(()),
            None => Err(CoreError::invalid(
                operation,
                "the device cannot export memory by file descriptor",
            )),
        }
    }

    /// Allocates a device-local buffer, and exports its memory: the descriptor, and the bytes that it is of.
    pub fn allocate_exported(&self, words: usize) -> Result<(BlockMemory, File, u64), CoreError> {
        self.check_sharing("export memory")?;
        let failed = |error| translate_validated(&self.info.name, "export memory", error);
        let kind = ExternalMemoryHandleType::OpaqueFd;
        let types = ExternalMemoryHandleTypes::from(kind);
        let raw = raw_buffer(&self.device, &self.info, words as u64 * 4, types)?;
        let bytes = raw.memory_requirements().layout.size();
        let info = MemoryAllocateInfo {
            allocation_size: bytes,
            memory_type_index: self.memory_type,
            dedicated_allocation: Some(DedicatedAllocation::Buffer(&raw)),
            export_handle_types: types,
            ..MemoryAllocateInfo::default()
        };
        let memory = DeviceMemory::allocate(Arc::clone(&self.device), info).map_err(failed)?;
        let file = memory.export_fd(kind).map_err(failed)?;
        Ok((BlockMemory::Vulkan(self.bind(raw, memory)?), file, bytes))
    }

    /// Makes a buffer in memory of this many bytes that another library has allocated on the device.
    ///
    /// # Safety
    /// The file is a descriptor of such memory, and is imported nowhere else.
    pub unsafe fn import(
        &self,
        words: usize,
        file: File,
        bytes: u64,
    ) -> Result<BlockMemory, CoreError> {
        self.check_sharing("import memory")?;
        let kind = ExternalMemoryHandleType::OpaqueFd;
        let raw = raw_buffer(&self.device, &self.info, words as u64 * 4, kind.into())?;
        let needed = raw.memory_requirements().layout.size();
        if bytes < needed {
            let reason = format!("memory of {bytes} bytes, expected at least {needed}");
            return Err(CoreError::invalid("import memory", reason));
        }
        let info = MemoryAllocateInfo {
            allocation_size: bytes,
            memory_type_index: self.memory_type,
            ..MemoryAllocateInfo::default()
        };
        let import = MemoryImportInfo::Fd {
            handle_type: kind,
            file,
        };
        // SAFETY: the descriptor is one of device memory of this many bytes, and is used for nothing else, as the
        // caller says.
        let memory = unsafe { DeviceMemory::import(Arc::clone(&self.device), info, import) }
            .map_err(|error| translate_validated(&self.info.name, "import memory", error))?;
        Ok(BlockMemory::Vulkan(self.bind(raw, memory)?))
    }

    /// Makes a timeline that begins at 0, and exports it.
    pub fn exported_timeline(&self) -> Result<(Timeline, File), CoreError> {
        self.check_sharing("export a timeline")?;
        let name = &self.info.name;
        let kind = ExternalSemaphoreHandleType::OpaqueFd;
        let info = SemaphoreCreateInfo {
            semaphore_type: SemaphoreType::Timeline,
            initial_value: 0,
            export_handle_types: ExternalSemaphoreHandleTypes::from(kind),
            ..SemaphoreCreateInfo::default()
        };
        let semaphore = Semaphore::new(Arc::clone(&self.device), info)
            .map_err(|error| translate_validated(name, "make a timeline", error))?;
        // SAFETY: an opaque descriptor refers to the semaphore itself, whose state it does not change.
        let file = unsafe { semaphore.export_fd_unchecked(kind) }
            .map_err(|error| translate(name, "export a timeline", error))?;
        let timeline = Timeline {
            semaphore: Arc::new(semaphore),
            device: name.as_str().into(),
        };
        Ok((timeline, file))
    }
}
