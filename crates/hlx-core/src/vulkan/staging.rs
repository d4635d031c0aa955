//! Staging memory: a persistent ring for uploads and a window for downloads.

use std::mem::MaybeUninit;
use std::sync::Arc;

use ash::vk;
use vulkano::VulkanObject;

use super::VulkanDevice;
use super::memory::HostMemory;
use crate::error::CoreError;

/// The ring's parts. One is written while the device copies from the others.
const SEGMENTS: usize = 4;
/// The size of each: 4 MiB, a fraction of a millisecond of PCIe.
const SEGMENT_BYTES: usize = 4 << 20;
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

impl HostRange {
    /// The beginning of a piece of memory.
    pub fn start_of(memory: &HostMemory) -> Self {
        Self {
            buffer: memory.buffer.handle(),
            offset: 0,
        }
    }
}

/// The staging memory of one stream.
pub(super) struct Staging {
    ring: HostMemory,
    window: HostMemory,
    /// The next free byte, in the segment of this index.
    head: usize,
    segment: usize,
    /// The submission that copies last from each segment.
    last_use: [u64; SEGMENTS],
}

impl Staging {
    pub fn new(device: &Arc<VulkanDevice>) -> Result<Self, CoreError> {
        let ring = device.allocate_host((SEGMENTS * SEGMENT_BYTES) as u64, false)?;
        let window = device.allocate_host(WINDOW_BYTES, true)?;
        Ok(Self {
            ring,
            window,
            head: 0,
            segment: 0,
            last_use: [0; SEGMENTS],
        })
    }

    /// The most words of one upload or download; longer ones go in parts.
    pub fn chunk_words() -> usize {
        SEGMENT_BYTES / 4
    }

    /// Whether the current segment holds `words` more.
    pub fn fits(&self, words: usize) -> bool {
        self.head + words * 4 <= (self.segment + 1) * SEGMENT_BYTES
    }

    /// Continues to the next segment; all that the current one holds is copied by `submission` at
    /// the latest. Returns the submission that must be done before the next one is written.
    pub fn advance(&mut self, submission: u64) -> u64 {
        self.last_use[self.segment] = submission;
        self.segment = (self.segment + 1) % SEGMENTS;
        self.head = self.segment * SEGMENT_BYTES;
        self.last_use[self.segment]
    }

    /// Writes words into the ring, each through `map`, and returns their place.
    pub fn write(&mut self, data: &[u32], map: impl Fn(u32) -> u32) -> HostRange {
        let offset = self.head;
        debug_assert!(self.fits(data.len()));
        // SAFETY: `fits` holds, so the words lie inside the mapped ring; no copy under way reads
        // them, since a segment is only entered when the copies from it are done.
        let target = unsafe {
            let first = self.ring.pointer.add(offset).cast::<MaybeUninit<u32>>();
            std::slice::from_raw_parts_mut(first, data.len())
        };
        for (target, &word) in target.iter_mut().zip(data) {
            target.write(map(word));
        }
        self.head = (offset + data.len() * 4).div_ceil(STEP) * STEP;
        HostRange {
            buffer: self.ring.buffer.handle(),
            offset: offset as u64,
        }
    }

    /// The place that downloads are copied to.
    pub fn window(&self) -> HostRange {
        HostRange::start_of(&self.window)
    }

    /// Appends the window's first `words` words; the copy into it must be done.
    pub fn read(&self, words: usize, out: &mut Vec<u32>) {
        self.window.read(words, out);
    }
}
