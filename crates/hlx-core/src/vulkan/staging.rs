//! Staging memory: a persistent ring for uploads and a window for downloads.

use std::sync::Arc;

use ash::vk;
use vulkano::VulkanObject;

use super::VulkanDevice;
use super::device::HostMemory;
use crate::error::CoreError;

/// The ring's size: 16 MiB, a few milliseconds of PCIe.
const RING_BYTES: u64 = 16 << 20;
/// The download window's size.
const WINDOW_BYTES: u64 = 16 << 20;
/// Every upload starts at a multiple of this.
const STEP: usize = 256;

/// A place in staging memory.
#[derive(Clone, Copy)]
pub(super) struct HostRange {
    pub buffer: vk::Buffer,
    pub offset: u64,
}

/// The staging memory of one stream.
pub(super) struct Staging {
    ring: HostMemory,
    window: HostMemory,
    head: usize,
}

impl Staging {
    pub fn new(device: &Arc<VulkanDevice>) -> Result<Self, CoreError> {
        let ring = device.allocate_host(RING_BYTES, false)?;
        let window = device.allocate_host(WINDOW_BYTES, true)?;
        Ok(Self {
            ring,
            window,
            head: 0,
        })
    }

    /// The most words of one upload or download; longer ones go in parts.
    pub fn chunk_words() -> usize {
        RING_BYTES as usize / 4 / 4
    }

    /// Whether the ring holds `words` more before it must start over.
    pub fn fits(&self, words: usize) -> bool {
        self.head + words * 4 <= self.ring.bytes
    }

    /// Starts the ring over; all copies from it must be done.
    pub fn restart(&mut self) {
        self.head = 0;
    }

    /// Writes words into the ring and returns their place.
    pub fn write(&mut self, data: &[u32]) -> HostRange {
        let offset = self.head;
        debug_assert!(self.fits(data.len()));
        // SAFETY: `fits` holds, so the bytes lie inside the mapped ring; no copy under way reads
        // them, since the ring only starts over when all are done.
        unsafe {
            let target = self.ring.pointer.add(offset);
            std::ptr::copy_nonoverlapping(data.as_ptr().cast::<u8>(), target, data.len() * 4);
        }
        self.head = (offset + data.len() * 4).div_ceil(STEP) * STEP;
        HostRange {
            buffer: self.ring.buffer.handle(),
            offset: offset as u64,
        }
    }

    /// The place that downloads are copied to.
    pub fn window(&self) -> HostRange {
        HostRange {
            buffer: self.window.buffer.handle(),
            offset: 0,
        }
    }

    /// Appends the window's first `words` words; the copy into it must be done.
    pub fn read(&self, words: usize, out: &mut Vec<u32>) {
        debug_assert!(words * 4 <= self.window.bytes);
        // SAFETY: the words lie inside the mapped window, which the device no longer writes.
        let words = unsafe { std::slice::from_raw_parts(self.window.pointer.cast::<u32>(), words) };
        out.extend_from_slice(words);
    }
}
