//! Host memory that a device copies to and from by itself, while the host does other work.

use std::any::Any;

use super::Device;
use crate::dtype::DType;
use crate::error::CoreError;
use crate::memory::{BlockMemory, Buffer, CpuMemory};
use crate::stream::Stream;
use crate::vulkan::HostCopy;

/// Words in host memory that the device reaches: pinned by a Vulkan device's driver, plain memory on the CPU.
pub struct HostBuffer(pub(crate) HostWords);

pub(crate) enum HostWords {
    Plain(Vec<u32>),
    Pinned(crate::vulkan::PinnedWords),
}

impl HostBuffer {
    /// The number of words.
    pub fn len(&self) -> usize {
        self.words().len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The words.
    pub fn words(&self) -> &[u32] {
        match &self.0 {
            HostWords::Plain(words) => words,
            HostWords::Pinned(pinned) => pinned.words(),
        }
    }

    /// The words, to be written.
    pub fn words_mut(&mut self) -> &mut [u32] {
        match &mut self.0 {
            HostWords::Plain(words) => words,
            HostWords::Pinned(pinned) => pinned.words_mut(),
        }
    }
}

/// A copy under way, which has the host memory until it is done. Dropping it waits for the device.
pub struct PendingCopy {
    device: Device,
    copy: Option<Copy>,
}

enum Copy {
    Done(Vec<u32>),
    UnderWay(HostCopy),
}

impl Device {
    /// The address of a buffer's first element in this process's memory, on the CPU device; `None` on a GPU. The
    /// memory is the buffer's for as long as a clone of it lives; who reads or writes it sees to it that no launch
    /// does meanwhile.
    ///
    /// # Errors
    /// [`CoreError::OtherDevice`]; [`CoreError::Invalid`] for a buffer of a graph that is being recorded.
    pub fn host_address(&self, buffer: &Buffer) -> Result<Option<*mut u8>, CoreError> {
        const OPERATION: &str = "host_address";
        self.check_owner(OPERATION, "buffer", buffer)?;
        if buffer.is_unplaced() {
            let reason = "the buffer is of a graph that is being recorded";
            return Err(CoreError::invalid(OPERATION, reason));
        }
        Ok(match &buffer.block().memory {
            BlockMemory::Cpu(memory) => Some(memory.at(buffer.offset()).cast()),
            _ => None,
        })
    }

    /// A buffer over `len` elements of somebody else's memory, which `owner` keeps and which is neither copied nor
    /// freed. `None` on a GPU, for an address that is no multiple of 4, and for elements that do not fill their last
    /// word, as kernels write whole words.
    ///
    /// # Safety
    /// The elements can be read and written for as long as `owner` lives, no f32 among them is subnormal, and every
    /// `bool` is 0 or 1.
    ///
    /// # Errors
    /// [`CoreError::Invalid`] for more elements than a buffer has.
    pub unsafe fn share_host(
        &self,
        address: *mut u8,
        (dtype, len): (DType, usize),
        owner: Box<dyn Any + Send + Sync>,
    ) -> Result<Option<Buffer>, CoreError> {
        let words = dtype.words(len);
        if !self.is_cpu() || len == 0 || !len.is_multiple_of(dtype.per_word()) {
            return Ok(None);
        }
        self.source().check_size(words)?;
        // SAFETY: as the caller promises.
        let Some(memory) = (unsafe { CpuMemory::foreign(address, words, owner) }) else {
            return Ok(None);
        };
        let block = self.source().adopt(BlockMemory::Cpu(memory), words);
        Buffer::isolated(block, words).view_as(dtype, len).map(Some)
    }

    /// Allocates `len` words of host memory for copies, zeros.
    ///
    /// # Errors
    /// [`CoreError::OutOfMemory`]; the driver's error.
    pub fn alloc_host(&self, len: usize) -> Result<HostBuffer, CoreError> {
        self.source().check_size(len)?;
        Ok(HostBuffer(match self.stream() {
            Stream::Cpu(_) => HostWords::Plain(self.plain_words(len)?),
            Stream::Vulkan(stream) => HostWords::Pinned(stream.alloc_pinned(len)?),
        }))
    }

    /// Zeros in plain memory, or an error where `vec!` would end the process.
    fn plain_words(&self, len: usize) -> Result<Vec<u32>, CoreError> {
        let source = self.source();
        source.check_budget(len)?;
        let mut words = Vec::new();
        let reserved = words.try_reserve_exact(len);
        reserved.map_err(|_| source.out_of_memory(len))?;
        words.resize(len, 0);
        Ok(words)
    }

    /// Starts to copy a buffer's words, as they are after all work launched so far, to the first words of
    /// `host`.
    ///
    /// # Errors
    /// [`CoreError::Invalid`] for host memory of another kind of device, or too little; the driver's error.
    pub fn copy_to_host(
        &self,
        buffer: &Buffer,
        host: HostBuffer,
    ) -> Result<PendingCopy, CoreError> {
        self.check_host("download", buffer, &host)?;
        let copy = match (self.stream(), host.0) {
            (Stream::Vulkan(stream), HostWords::Pinned(pinned)) => {
                Copy::UnderWay(stream.copy_to_pinned(&buffer.as_words(), pinned)?)
            }
            (_, HostWords::Plain(mut words)) => {
                words[..buffer.words()].copy_from_slice(&self.download_words(buffer)?);
                Copy::Done(words)
            }
            _ => return Err(CoreError::invalid("download", "pinned memory on the CPU")),
        };
        Ok(PendingCopy::new(self, copy))
    }

    /// Starts to copy the first words of `host` to a buffer; work launched later sees them there.
    ///
    /// # Errors
    /// As [`Device::copy_to_host`].
    pub fn copy_from_host(
        &self,
        host: HostBuffer,
        buffer: &Buffer,
    ) -> Result<PendingCopy, CoreError> {
        self.check_host("upload", buffer, &host)?;
        let copy = match (self.stream(), host.0) {
            (Stream::Vulkan(stream), HostWords::Pinned(pinned)) => {
                Copy::UnderWay(stream.copy_from_pinned(pinned, &buffer.as_words())?)
            }
            (_, HostWords::Plain(words)) => {
                self.upload_words(buffer, &words[..buffer.words()])?;
                Copy::Done(words)
            }
            _ => return Err(CoreError::invalid("upload", "pinned memory on the CPU")),
        };
        Ok(PendingCopy::new(self, copy))
    }

    fn check_host(
        &self,
        operation: &str,
        buffer: &Buffer,
        host: &HostBuffer,
    ) -> Result<(), CoreError> {
        self.check_owner(operation, "buffer", buffer)?;
        let (found, expected) = (host.len(), buffer.words());
        if found >= expected {
            return Ok(());
        }
        let reason = format!("host memory has {found} words, expected {expected}");
        Err(CoreError::invalid(operation, reason))
    }
}

impl PendingCopy {
    fn new(device: &Device, copy: Copy) -> Self {
        Self {
            device: device.clone(),
            copy: Some(copy),
        }
    }

    /// Whether [`PendingCopy::wait`] would return at once.
    ///
    /// # Errors
    /// [`CoreError::DeviceLost`].
    pub fn is_done(&self) -> Result<bool, CoreError> {
        match (self.device.stream(), &self.copy) {
            (Stream::Vulkan(stream), Some(Copy::UnderWay(copy))) => stream.is_copied(copy),
            _ => Ok(true),
        }
    }

    /// Waits for the copy, and gives the host memory back.
    ///
    /// # Errors
    /// [`CoreError::DeviceLost`].
    pub fn wait(mut self) -> Result<HostBuffer, CoreError> {
        match self.finish()? {
            Some(host) => Ok(host),
            None => Err(CoreError::invalid("copy", "it has been waited for")),
        }
    }

    fn finish(&mut self) -> Result<Option<HostBuffer>, CoreError> {
        Ok(match (self.device.stream(), self.copy.take()) {
            (Stream::Vulkan(stream), Some(Copy::UnderWay(copy))) => {
                Some(HostBuffer(HostWords::Pinned(stream.finish_copy(copy)?)))
            }
            (_, Some(Copy::Done(words))) => Some(HostBuffer(HostWords::Plain(words))),
            _ => None,
        })
    }
}

impl Drop for PendingCopy {
    fn drop(&mut self) {
        if let Err(error) = self.finish() {
            tracing::error!("a copy that nobody waited for: {error}");
        }
    }
}
