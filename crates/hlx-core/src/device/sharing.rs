//! What a device shares with another library on the same GPU: memory, and the order of both works.

use std::fs::File;

use super::Device;
use crate::error::CoreError;
use crate::memory::Buffer;
use crate::stream::Stream;
use crate::vulkan::{Timeline, VulkanStream};

/// Device memory that another library imports by a file descriptor.
pub struct SharedBuffer {
    /// The words, as HLX knows them.
    pub buffer: Buffer,
    /// An opaque descriptor of the memory.
    pub file: File,
    /// The bytes of the memory, at least those of the buffer.
    pub bytes: u64,
}

impl Device {
    fn sharing(&self, operation: &str) -> Result<&VulkanStream, CoreError> {
        match self.stream() {
            Stream::Vulkan(stream) => Ok(stream),
            Stream::Cpu(_) => Err(CoreError::invalid(operation, "not possible on the CPU")),
        }
    }

    /// The number by which other libraries know the device (Vulkan's `deviceUUID`); none on one that
    /// cannot share memory with them.
    pub fn sharing_uuid(&self) -> Option<[u8; 16]> {
        let stream = self.sharing("share").ok()?;
        stream.device().sharing_uuid()
    }

    /// Allocates `len` f32 elements, uninitialised, in memory that another library can import. It is freed
    /// when both have let go of it.
    ///
    /// # Errors
    /// As [`Device::alloc`], and [`CoreError::Invalid`] on a device that cannot export memory.
    pub fn alloc_shared(&self, len: usize) -> Result<SharedBuffer, CoreError> {
        let vulkan = self.sharing("export memory")?.device();
        self.source().check_size(len)?;
        let (memory, file, bytes) = vulkan.allocate_exported(len.max(1))?;
        let block = self.source().adopt(memory, len.max(1));
        let buffer = Buffer::isolated(block, len);
        Ok(SharedBuffer {
            buffer,
            file,
            bytes,
        })
    }

    /// Takes memory of `bytes` bytes that another library has allocated on the device and exported, as `len` f32
    /// elements, uninitialised. It is freed when both have let go of it.
    ///
    /// # Errors
    /// [`CoreError::Invalid`] on a device that cannot import memory and for less than `len` elements; the driver's
    /// error.
    ///
    /// # Safety
    /// The file is an opaque descriptor of memory of this device, of `bytes` bytes, that was exported and is
    /// imported nowhere else: a driver takes any other for one.
    pub unsafe fn import_shared(
        &self,
        file: File,
        bytes: u64,
        len: usize,
    ) -> Result<Buffer, CoreError> {
        let vulkan = self.sharing("import memory")?.device();
        self.source().check_size(len)?;
        let words = len.max(1);
        // SAFETY: as the caller says.
        let memory = unsafe { vulkan.import(words, file, bytes) }?;
        Ok(Buffer::isolated(self.source().adopt(memory, words), len))
    }

    /// Makes a timeline semaphore at 0, and an opaque file descriptor of it. There are none without one, as Vulkan's
    /// validation layer was seen to lose count of them (1.3.239: a wait of 10 s, and a message that names itself as
    /// the likely cause).
    ///
    /// # Errors
    /// [`CoreError::Invalid`] on a device that cannot export it; the driver's error.
    pub fn timeline(&self) -> Result<(Timeline, File), CoreError> {
        let stream = self.sharing("export a timeline")?;
        stream.device().exported_timeline()
    }

    /// Lets the timeline have `value` when all work launched so far is done. Values rise.
    ///
    /// # Errors
    /// As [`Device::sync`], which this does not wait for; [`CoreError::Invalid`] for a timeline of another device.
    pub fn raise(&self, timeline: &Timeline, value: u64) -> Result<(), CoreError> {
        self.sharing("raise a timeline")?.raise(timeline, value)
    }

    /// Lets all work launched from now on begin when the timeline has `value`. The host does not wait.
    ///
    /// # Errors
    /// As [`Device::raise`].
    pub fn await_value(&self, timeline: &Timeline, value: u64) -> Result<(), CoreError> {
        let stream = self.sharing("await a timeline")?;
        stream.await_value(timeline, value)
    }
}
