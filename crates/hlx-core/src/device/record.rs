//! Recordings of a device: launches that become a graph.

use std::ops::Range;
use std::sync::{Arc, MutexGuard, PoisonError};

use crate::error::CoreError;
use crate::graph::{Graph, Launches};
use crate::memory::{Buffer, MemoryStatistics, NotedChange};
use crate::recording::RecordingOptions;
use crate::stream::{Stream, on_stream};

use super::Device;

impl Device {
    /// Runs `body` with its launches recorded instead of run, and returns them as a graph beside
    /// the body's result. Buffers allocated inside get their memory at the end: one whose handle is
    /// still held retains its own, also after the graph is dropped; the others share what all graphs
    /// work in. On a Vulkan device launches that do not depend on each other run side by side.
    /// Chains of element-wise launches become one launch each ([`Tuning::chains`](crate::Tuning::chains)), and what only
    /// they read is not stored. Launches are left out whose results nobody reads: buffers of the graph
    /// without a handle at the end, which no later launch reads that is needed itself
    /// ([`Tuning::skips_unread`](crate::Tuning::skips_unread)). The graph owns the buffers from outside that its launches use. Uploads, downloads
    /// and replays inside are errors, and so is whatever another thread does on this device
    /// meanwhile.
    ///
    /// # Errors
    /// What `body` returns; [`CoreError::Invalid`] if a graph is already being recorded.
    pub fn record<T, E: From<CoreError>>(
        &self,
        body: impl FnOnce() -> Result<T, E>,
    ) -> Result<(Graph, T), E> {
        self.record_watched(&[], body)
    }

    /// As [`Device::record`]; the graph is cut after the launches that last write each of the `watched`
    /// windows of buffers from outside, so that [`Graph::replay_watched`] tells when they are final. A
    /// window that no launch writes is final from the start; of those in the order of `watched` none is
    /// reported before the ones before it.
    ///
    /// # Errors
    /// As [`Device::record`].
    pub fn record_watched<T, E: From<CoreError>>(
        &self,
        watched: &[Buffer],
        body: impl FnOnce() -> Result<T, E>,
    ) -> Result<(Graph, T), E> {
        let recording = self.start_recording()?;
        let result = body()?;
        Ok((recording.end(watched)?, result))
    }

    /// Runs `body` as [`Device::record`] does, and returns the memory that its graph would hold, without allocating
    /// it: `held_bytes` beside what is there already, of which `in_use_bytes` are the graph's alone and the rest is
    /// shared by all graphs of the device. A graph that is too large for the device is measured, too.
    ///
    /// # Errors
    /// As [`Device::record`].
    pub fn measure<E: From<CoreError>>(
        &self,
        body: impl FnOnce() -> Result<(), E>,
    ) -> Result<MemoryStatistics, E> {
        let recording = self.start_recording()?;
        body()?;
        Ok(recording.measure()?)
    }

    /// Starts recording a graph as [`Device::record`] does: this thread's launches go to it until
    /// [`OpenRecording::finish`], which returns the graph. Dropped before, nothing is recorded.
    ///
    /// # Errors
    /// [`CoreError::Invalid`] if a graph is already being recorded.
    pub fn start_recording(&self) -> Result<OpenRecording, CoreError> {
        if !self.is_recording() {
            self.prepare_flags()?;
        }
        let options = RecordingOptions {
            joins: self.tuning.chains,
            skips_unread: self.tuning.skips_unread,
        };
        match self.stream() {
            Stream::Vulkan(stream) => stream.begin_recording(self.pace(), options)?,
            Stream::Cpu(stream) => stream.begin_recording(options)?,
        }
        self.changes().clear();
        let device = Some(self.clone());
        Ok(OpenRecording { device })
    }

    /// Notes that elements of a buffer are changed in place, so that [`Buffer::changed_after`] tells
    /// those who still hold it; while a graph is recorded, at every replay as well. `rebased`: see
    /// [`Buffer::rebased_after`].
    pub fn note_change(&self, buffer: &Buffer, elements: Range<usize>, rebased: bool) {
        let noted = buffer.note_change(elements, rebased);
        if self.is_recording() {
            self.changes().push(noted);
        }
    }

    fn changes(&self) -> MutexGuard<'_, Vec<NotedChange>> {
        let changes = self.inner.changes.lock();
        changes.unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether a graph is being recorded.
    pub fn is_recording(&self) -> bool {
        on_stream!(self, stream => stream.is_recording())
    }

    /// Whether values that are read again much later should be computed again: while a graph is
    /// recorded on a Vulkan device. A buffer's words are free there after its last launch,
    /// however long its handle is held; so they are on the CPU, whose memory is seldom short.
    pub fn plans_memory(&self) -> bool {
        !self.is_cpu() && self.is_recording()
    }
}

/// A graph that is being recorded; made by [`Device::start_recording`]. Dropped, as when the body of a recording fails
/// or panics, it abandons the recording.
pub struct OpenRecording {
    /// None once the recording has ended.
    device: Option<Device>,
}

impl OpenRecording {
    /// Ends the recording and returns the graph.
    ///
    /// # Errors
    /// What the device answers; the recording is over then, too.
    pub fn finish(self) -> Result<Graph, CoreError> {
        self.end(&[])
    }

    fn measure(mut self) -> Result<MemoryStatistics, CoreError> {
        let Some(device) = self.device.take() else {
            return Err(CoreError::invalid("record", "no graph is being recorded"));
        };
        device.forget_recorded();
        let measured = on_stream!(device, stream => stream.measure_recording())?;
        // Nothing will be replayed, so nothing changes again.
        device.changes().clear();
        Ok(measured)
    }

    fn end(mut self, watched: &[Buffer]) -> Result<Graph, CoreError> {
        let Some(device) = self.device.take() else {
            return Err(CoreError::invalid("record", "no graph is being recorded"));
        };
        device.forget_recorded();
        let launches = match device.stream() {
            Stream::Vulkan(stream) => Launches::Vulkan(stream.end_recording(watched)?),
            Stream::Cpu(stream) => Launches::Cpu(stream.end_recording(watched)?),
        };
        let changes = std::mem::take(&mut *device.changes());
        let stream = Arc::clone(&device.inner.stream);
        Ok(Graph::new(stream, launches, changes))
    }
}

impl Drop for OpenRecording {
    fn drop(&mut self) {
        if let Some(device) = &self.device {
            device.forget_recorded();
            on_stream!(device, stream => stream.abandon_recording());
        }
    }
}
