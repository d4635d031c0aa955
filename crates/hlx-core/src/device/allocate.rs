//! Memory of a device.

use crate::dtype::DType;
use crate::error::CoreError;
use crate::memory::Buffer;
use crate::sizes;
use crate::stream::{Stream, on_stream};

use super::Device;

impl Device {
    /// Allocates `len` f32 elements in device memory, uninitialised.
    ///
    /// # Errors
    /// [`CoreError::OutOfMemory`], which names what was requested and what is in use;
    /// [`CoreError::Invalid`] while another thread records a graph.
    pub fn alloc(&self, len: usize) -> Result<Buffer, CoreError> {
        if self.leaves_out() {
            return self.without_memory(len);
        }
        on_stream!(self, stream => stream.alloc(len))
    }

    /// Allocates `len` elements of a type in device memory, uninitialised.
    ///
    /// # Errors
    /// As [`Device::alloc`].
    pub fn alloc_typed(&self, dtype: DType, len: usize) -> Result<Buffer, CoreError> {
        self.alloc(dtype.words(len))?.view_as(dtype, len)
    }

    /// Allocates f32 elements in device memory, uninitialised, as many as a shape of these extents has: for extents
    /// whose product nobody has checked.
    ///
    /// # Errors
    /// As [`Device::alloc`]; [`CoreError::Invalid`] for a shape that no memory holds.
    pub fn alloc_shape(&self, extents: &[usize]) -> Result<Buffer, CoreError> {
        self.alloc(sizes::elements("alloc", extents)?)
    }

    /// As [`Device::alloc_shape`], of elements of a type.
    ///
    /// # Errors
    /// As [`Device::alloc_shape`].
    pub fn alloc_shape_typed(&self, dtype: DType, extents: &[usize]) -> Result<Buffer, CoreError> {
        self.alloc_typed(dtype, sizes::elements("alloc", extents)?)
    }

    /// Refuses more bytes than the device's memory may have: for sizes that a file tells, before the file is read. Success
    /// reserves nothing.
    ///
    /// # Errors
    /// [`CoreError::OutOfMemory`].
    pub fn check_memory(&self, bytes: usize) -> Result<(), CoreError> {
        self.inner.source.check_budget(bytes.div_ceil(4))
    }

    /// Allocates `len` words in an allocation of their own, uninitialised: on a Vulkan device a
    /// buffer of exactly this size, which no other tensor shares. So a kernel from outside that
    /// computes a wrong index reaches no other tensor, even where the driver bounds accesses by
    /// the Vulkan buffer and not by the bound window (`robustBufferAccess`). Costs a driver
    /// allocation each; tensors of HLX's own kernels come from [`Device::alloc`].
    ///
    /// # Errors
    /// [`CoreError::OutOfMemory`], which names what was requested and what is in use.
    pub fn alloc_isolated(&self, len: usize) -> Result<Buffer, CoreError> {
        if self.leaves_out() {
            return self.without_memory(len);
        }
        let block = self.inner.source.allocate(len.max(1))?;
        Ok(Buffer::isolated(block, len))
    }

    /// Allocates `len` words in the host's memory, uninitialised, as a buffer of this device: kernels read and write it over
    /// the bus, and every other call takes it as it takes device memory. On the CPU device, and where the device's memory
    /// is the host's, it is memory as any other.
    ///
    /// # Errors
    /// [`CoreError::OutOfMemory`], which names what was requested and what is in use.
    pub fn alloc_in_host(&self, len: usize) -> Result<Buffer, CoreError> {
        if self.leaves_out() {
            let block = self.source().without_memory(len.max(1), !self.is_cpu());
            return Ok(Buffer::isolated(block, len));
        }
        let block = self.inner.source.allocate_in_host(len.max(1))?;
        Ok(Buffer::isolated(block, len))
    }

    /// The bytes of [`Device::alloc_in_host`] that are alive; 0 on the CPU device, which counts them as its own.
    pub fn host_bytes(&self) -> u64 {
        self.inner.source.host_bytes()
    }
}
