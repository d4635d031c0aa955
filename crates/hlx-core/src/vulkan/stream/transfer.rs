//! Transfers of a Vulkan stream between the host and the device.

use vulkano::device::DeviceOwned as _;

use super::{State, VulkanStream};
use crate::error::CoreError;
use crate::launch::Binding;
use crate::memory::Buffer;
use crate::view::View;
use crate::vulkan::memory::HostMemory;
use crate::vulkan::sharing::check_device;
use crate::vulkan::staging::{HostRange, Staging};

/// Pinned host memory of this many words.
pub(crate) struct PinnedWords {
    memory: HostMemory,
    words: usize,
}

impl PinnedWords {
    /// The words; no copy of the device's is under way, as it would have the memory.
    pub fn words(&self) -> &[u32] {
        // SAFETY: the words lie in mapped memory that was zeroed, and the device does not write them.
        unsafe { std::slice::from_raw_parts(self.memory.pointer.cast(), self.words) }
    }

    pub fn words_mut(&mut self) -> &mut [u32] {
        // SAFETY: as above, and nobody else has the memory.
        unsafe { std::slice::from_raw_parts_mut(self.memory.pointer.cast(), self.words) }
    }
}

/// A copy between the device and pinned memory.
pub(crate) struct HostCopy {
    pinned: PinnedWords,
    /// The submission that carries it out.
    submission: u64,
}

impl VulkanStream {
    /// Allocates pinned memory, zeros.
    pub fn alloc_pinned(&self, words: usize) -> Result<PinnedWords, CoreError> {
        let memory = self.device.allocate_host(4 * words.max(1) as u64, true)?;
        // SAFETY: the mapped memory has these words, and nobody uses it yet.
        unsafe { memory.pointer.cast::<u32>().write_bytes(0, words) };
        Ok(PinnedWords { memory, words })
    }

    /// Submits a copy of the buffer's words to pinned memory that holds them.
    pub fn copy_to_pinned(
        &self,
        buffer: &Buffer,
        pinned: PinnedWords,
    ) -> Result<HostCopy, CoreError> {
        self.check_pinned("download", &pinned)?;
        let mut state = self.lock_unrecorded("download")?;
        let source = View::of(&Binding::Read(buffer));
        let target = HostRange::start_of(&pinned.memory);
        self.eager(&mut state)?.read_back(&source, target)?;
        state.submit(&[])?;
        let submission = state.submissions.count();
        Ok(HostCopy { pinned, submission })
    }

    /// Launches a copy of pinned memory to the buffer, which it holds the words of.
    pub fn copy_from_pinned(
        &self,
        pinned: PinnedWords,
        buffer: &Buffer,
    ) -> Result<HostCopy, CoreError> {
        self.check_pinned("upload", &pinned)?;
        let mut state = self.lock_unrecorded("upload")?;
        let target = View::of(&Binding::Write(buffer));
        let source = HostRange::start_of(&pinned.memory);
        self.eager(&mut state)?.upload(source, &target)?;
        let submission = state.submissions.count() + 1;
        Ok(HostCopy { pinned, submission })
    }

    /// Fails for memory that another device has pinned.
    fn check_pinned(&self, operation: &str, pinned: &PinnedWords) -> Result<(), CoreError> {
        let found = pinned.memory.buffer.device();
        check_device(operation, "the host memory", found, &self.device.device)
    }

    /// Whether a copy is done.
    pub fn is_copied(&self, copy: &HostCopy) -> Result<bool, CoreError> {
        let mut state = self.state();
        state.submissions.poll()?;
        Ok(state.submissions.done() >= copy.submission)
    }

    /// Waits for a copy, and gives its memory back.
    pub fn finish_copy(&self, copy: HostCopy) -> Result<PinnedWords, CoreError> {
        let mut state = self.state();
        if state.submissions.count() < copy.submission {
            state.submit(&[])?;
        }
        state.submissions.wait_for(copy.submission)?;
        Ok(copy.pinned)
    }

    /// Copies words, each through `map`, to the device through the staging ring.
    pub fn upload(
        &self,
        buffer: &Buffer,
        data: &[u32],
        map: impl Fn(u32) -> u32 + Copy,
    ) -> Result<(), CoreError> {
        let mut state = self.lock_unrecorded("upload")?;
        let mut offset = 0;
        for chunk in data.chunks(Staging::chunk_words()) {
            let target = buffer.slice(offset, chunk.len())?;
            offset += chunk.len();
            if !self.staging(&mut state)?.fits(chunk.len()) {
                state.submit(&[])?;
                let submitted = state.submissions.count();
                let last_use = self.staging(&mut state)?.advance(submitted);
                state.submissions.wait_for(last_use)?;
            }
            let source = self.staging(&mut state)?.write(chunk, map);
            let target = View::of(&Binding::Write(&target));
            self.eager(&mut state)?.upload(source, &target)?;
        }
        Ok(())
    }

    /// Waits for all work and returns the buffer's words.
    pub fn download(&self, buffer: &Buffer) -> Result<Vec<u32>, CoreError> {
        let mut state = self.lock_unrecorded("download")?;
        let mut words = Vec::with_capacity(buffer.len());
        while words.len() < buffer.len() {
            let count = (buffer.len() - words.len()).min(Staging::chunk_words());
            let source = buffer.slice(words.len(), count)?;
            let window = self.staging(&mut state)?.window();
            let source = View::of(&Binding::Read(&source));
            self.eager(&mut state)?.read_back(&source, window)?;
            state.submit(&[])?;
            // The host would only wait, and a run that is stopped later finds its pipelines.
            self.device.pipelines().save();
            state.submissions.wait_all()?;
            self.staging(&mut state)?.read(count, &mut words);
        }
        Ok(words)
    }

    /// Submits a copy of the buffer's words to spare pinned memory, and does not wait for it.
    pub fn read_back(&self, buffer: &Buffer) -> Result<HostCopy, CoreError> {
        let fits = |pinned: &PinnedWords| pinned.words >= buffer.len();
        let spare = {
            let spare = &mut self.lock_unrecorded("download")?.spare_host;
            let place = spare.iter().position(fits);
            place.map(|place| spare.swap_remove(place))
        };
        let pinned = match spare {
            Some(pinned) => pinned,
            None => self.alloc_pinned(buffer.len())?,
        };
        self.copy_to_pinned(buffer, pinned)
    }

    /// Waits for the first `n` words that were read back, and retains their memory for another time.
    pub fn receive(&self, copy: HostCopy, n: usize) -> Result<Vec<u32>, CoreError> {
        let pinned = self.finish_copy(copy)?;
        let words = pinned.words()[..n].to_vec();
        self.state().spare_host.push(pinned);
        Ok(words)
    }

    fn staging<'a>(&self, state: &'a mut State) -> Result<&'a mut Staging, CoreError> {
        match &mut state.staging {
            Some(staging) => Ok(staging),
            slot => Ok(slot.insert(Staging::new(&self.device)?)),
        }
    }
}
