//! Transfers of a Vulkan stream between the host and the device.

use super::{State, VulkanStream};
use crate::error::CoreError;
use crate::launch::Binding;
use crate::memory::Buffer;
use crate::view::View;
use crate::vulkan::device::HostMemory;
use crate::vulkan::staging::{HostRange, Staging};

/// A download under way.
pub(crate) struct ReadBack {
    memory: HostMemory,
    words: usize,
    /// The submission that copies them.
    submission: u64,
}

impl VulkanStream {
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

    /// Submits a copy of the buffer's words to the host, and does not wait for it.
    pub fn read_back(&self, buffer: &Buffer) -> Result<ReadBack, CoreError> {
        let mut state = self.lock_unrecorded("download")?;
        let bytes = 4 * buffer.len();
        let fitting = state.spare_host.iter().position(|m| m.bytes >= bytes);
        let memory = match fitting {
            Some(place) => state.spare_host.swap_remove(place),
            None => self.device.allocate_host(bytes as u64, true)?,
        };
        let source = View::of(&Binding::Read(buffer));
        self.eager(&mut state)?
            .read_back(&source, HostRange::start_of(&memory))?;
        state.submit(&[])?;
        Ok(ReadBack {
            memory,
            words: buffer.len(),
            submission: state.submissions.count(),
        })
    }

    /// Whether the words have arrived.
    pub fn has_arrived(&self, pending: &ReadBack) -> Result<bool, CoreError> {
        let mut state = self.state();
        state.submissions.poll()?;
        Ok(state.submissions.done() >= pending.submission)
    }

    /// Waits for the words, and keeps their memory for another time.
    pub fn receive(&self, pending: ReadBack) -> Result<Vec<u32>, CoreError> {
        let mut state = self.state();
        state.submissions.wait_for(pending.submission)?;
        let mut words = Vec::with_capacity(pending.words);
        pending.memory.read(pending.words, &mut words);
        state.spare_host.push(pending.memory);
        Ok(words)
    }

    fn staging<'a>(&self, state: &'a mut State) -> Result<&'a mut Staging, CoreError> {
        match &mut state.staging {
            Some(staging) => Ok(staging),
            slot => Ok(slot.insert(Staging::new(&self.device)?)),
        }
    }
}
