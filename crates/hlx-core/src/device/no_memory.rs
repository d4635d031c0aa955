//! A device without memory: what a program would allocate is counted, and nothing but recordings is computed.

use std::sync::atomic::Ordering;

use super::Device;
use crate::error::CoreError;
use crate::memory::Buffer;

impl Device {
    /// Has this device allocate nothing from here on, before it has allocated anything: a buffer has a size and no memory,
    /// fills, copies, uploads and launches outside of recordings are left out, and downloads are zeros. All sizes are
    /// counted ([`Device::held_bytes`]) and none is refused, so that [`Device::measure`] tells what a program would take that fits
    /// on no device. Graphs cannot be recorded to be replayed.
    pub fn give_no_memory(&self) {
        self.inner.has_no_memory.store(true, Ordering::Relaxed);
    }

    /// Whether buffers have memory; false after [`Device::give_no_memory`].
    pub fn has_memory(&self) -> bool {
        !self.inner.has_no_memory.load(Ordering::Relaxed)
    }

    /// Whether what is called now is not carried out.
    pub(super) fn leaves_out(&self) -> bool {
        !self.has_memory() && !self.is_recording()
    }

    /// A buffer of a size and without memory.
    pub(super) fn without_memory(&self, len: usize) -> Result<Buffer, CoreError> {
        let words = self.source().aligned(len)?;
        let block = self.source().without_memory(words, false);
        Ok(Buffer::isolated(block, len))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_device_without_memory_counts_what_it_would_hold() {
        let device = crate::testing::cpu().expect("the CPU device opens");
        device.give_no_memory();
        let before = device.held_bytes();
        // More than any machine has.
        let large = device.alloc(1 << 44).expect("has a size");
        assert_eq!(device.held_bytes() - before, 4 << 44);
        device.fill(&large, 1).expect("is left out");
        let small = device.buffer_of::<f32>(&[1.0, 2.0]).expect("is left out");
        assert_eq!(device.download::<f32>(&small).expect("zeros"), [0.0, 0.0]);
        let mut held = None;
        let measured = device.measure(|| {
            let result = device.alloc(1 << 20)?;
            device.copy(&large.slice(0, 1 << 20)?, &result)?;
            held = Some(result);
            Ok::<(), CoreError>(())
        });
        assert!(measured.expect("is measured").held_bytes >= 4 << 20);
        drop(held);
        drop(large);
        // Small buffers are parts of larger blocks, which the device keeps.
        assert!(device.held_bytes() - before < 1 << 16);
    }
}
