//! The stream of one Vulkan device: eager work is gathered and submitted in batches, graphs are
//! submitted whole, and nothing waits but a download.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use ash::vk;
use vulkano::VulkanObject;
use vulkano::sync::fence::Fence;

use super::pipeline::Pipeline;
use super::recorder::{Recorded, Recorder};
use super::staging::Staging;
use super::{VulkanDevice, check_raw, translate, translate_validated};
use crate::error::CoreError;
use crate::launch::Launch;
use crate::memory::Buffer;
use crate::profile::{Profiler, Work};

/// A recorded command buffer that is submitted again and again.
pub(crate) type RecordedStream = Recorded;

/// Eager launches gathered before they are submitted, so that the device starts early.
const LAUNCHES_PER_SUBMISSION: usize = 96;
/// Submissions under way before the host waits for the oldest.
const SUBMISSIONS_UNDER_WAY: usize = 8;

/// The stream; one lock guards all of it.
pub(crate) struct VulkanStream {
    device: Arc<VulkanDevice>,
    profiler: Arc<Profiler>,
    state: Mutex<State>,
}

struct State {
    eager: Option<Recorder>,
    recording: Option<Recorder>,
    under_way: VecDeque<Submission>,
    staging: Option<Staging>,
    profiling: bool,
}

/// A command buffer on the device, and the fence that tells when it is done.
struct Submission {
    fence: Fence,
    work: Arc<Recorded>,
}

impl VulkanStream {
    pub fn new(device: Arc<VulkanDevice>, profiler: Arc<Profiler>) -> Result<Self, CoreError> {
        let state = State {
            eager: None,
            recording: None,
            under_way: VecDeque::new(),
            staging: None,
            profiling: false,
        };
        Ok(Self {
            device,
            profiler,
            state: Mutex::new(state),
        })
    }

    pub fn device(&self) -> &Arc<VulkanDevice> {
        &self.device
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Runs `body` with the recorder that work goes to now.
    fn with_recorder<R>(
        &self,
        body: impl FnOnce(&mut Recorder) -> Result<R, CoreError>,
    ) -> Result<R, CoreError> {
        let mut state = self.state();
        if let Some(recorder) = &mut state.recording {
            return body(recorder);
        }
        let result = body(self.eager(&mut state)?)?;
        if state
            .eager
            .as_ref()
            .is_some_and(|e| e.launches() >= LAUNCHES_PER_SUBMISSION)
        {
            self.flush(&mut state)?;
        }
        Ok(result)
    }

    fn eager<'a>(&self, state: &'a mut State) -> Result<&'a mut Recorder, CoreError> {
        let profiling = state.profiling;
        match &mut state.eager {
            Some(recorder) => Ok(recorder),
            slot => Ok(slot.insert(Recorder::begin(&self.device, profiling)?)),
        }
    }

    /// Launches a kernel of the program.
    pub fn dispatch(&self, launch: &Launch<'_>, work: Work) -> Result<(), CoreError> {
        let pipeline = self.pipeline(launch)?;
        self.with_recorder(|recorder| {
            recorder.dispatch(
                (launch.name, work),
                &pipeline,
                launch.bindings,
                launch.push,
                launch.groups,
            )
        })
    }

    fn pipeline(&self, launch: &Launch<'_>) -> Result<Arc<Pipeline>, CoreError> {
        let mut store = self
            .device
            .pipelines
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        store.get(
            &self.device,
            launch.shader,
            launch.specialization,
            launch.bindings.len(),
            launch.push.len(),
        )
    }

    pub fn fill(&self, buffer: &Buffer, word: u32) -> Result<(), CoreError> {
        self.with_recorder(|recorder| recorder.fill(buffer, word))
    }

    pub fn copy(&self, source: &Buffer, target: &Buffer) -> Result<(), CoreError> {
        self.with_recorder(|recorder| recorder.copy(source, target))
    }

    /// Copies words to the device through the staging ring.
    pub fn upload(&self, buffer: &Buffer, data: &[u32]) -> Result<(), CoreError> {
        let mut state = self.state();
        let mut offset = 0;
        for chunk in data.chunks(Staging::chunk_words()) {
            let target = buffer.slice(offset, chunk.len())?;
            offset += chunk.len();
            if !self.staging(&mut state)?.fits(chunk.len()) {
                self.flush(&mut state)?;
                self.wait_all(&mut state)?;
                self.staging(&mut state)?.restart();
            }
            let source = self.staging(&mut state)?.write(chunk);
            self.eager(&mut state)?.upload(source, &target)?;
        }
        Ok(())
    }

    /// Waits for all work and returns the buffer's words.
    pub fn download(&self, buffer: &Buffer) -> Result<Vec<u32>, CoreError> {
        let mut state = self.state();
        let mut words = Vec::with_capacity(buffer.len());
        while words.len() < buffer.len() {
            let count = (buffer.len() - words.len()).min(Staging::chunk_words());
            let source = buffer.slice(words.len(), count)?;
            let window = self.staging(&mut state)?.window();
            self.eager(&mut state)?.read_back(&source, window)?;
            self.flush(&mut state)?;
            self.wait_all(&mut state)?;
            self.staging(&mut state)?.read(count, &mut words);
        }
        Ok(words)
    }

    fn staging<'a>(&self, state: &'a mut State) -> Result<&'a mut Staging, CoreError> {
        match &mut state.staging {
            Some(staging) => Ok(staging),
            slot => Ok(slot.insert(Staging::new(&self.device)?)),
        }
    }

    /// Submits the eager work gathered so far.
    fn flush(&self, state: &mut State) -> Result<(), CoreError> {
        match state.eager.take() {
            Some(recorder) if recorder.launches() > 0 => {
                self.submit(state, Arc::new(recorder.finish()?))
            }
            _ => Ok(()),
        }
    }

    fn submit(&self, state: &mut State, work: Arc<Recorded>) -> Result<(), CoreError> {
        let name = &self.device.info.name;
        let fence = Fence::from_pool(Arc::clone(&self.device.device))
            .map_err(|error| translate(name, "create a fence", error))?;
        let command_buffer = work.handle();
        let info = vk::SubmitInfo {
            command_buffer_count: 1,
            p_command_buffers: &command_buffer,
            ..vk::SubmitInfo::default()
        };
        let submit = self.device.device.fns().v1_0.queue_submit;
        // SAFETY: `with` holds the queue's lock; the command buffer and all it uses are kept
        // alive by `work` until the fence is signalled.
        let result = self
            .device
            .queue
            .with(|_guard| unsafe { submit(self.device.queue.handle(), 1, &info, fence.handle()) });
        check_raw(name, "submit", result)?;
        let timed = work.is_timed();
        state.under_way.push_back(Submission { fence, work });
        if timed {
            return self.wait_all(state);
        }
        while state.under_way.len() > SUBMISSIONS_UNDER_WAY {
            self.wait_oldest(state)?;
        }
        Ok(())
    }

    fn wait_oldest(&self, state: &mut State) -> Result<(), CoreError> {
        let Some(submission) = state.under_way.front() else {
            return Ok(());
        };
        submission.fence.wait(None).map_err(|error| {
            translate_validated(
                &self.device.info.name,
                "wait for the device",
                vulkano::Validated::Error(error),
            )
        })?;
        if let Some(done) = state.under_way.pop_front() {
            done.work.collect(&self.profiler)?;
        }
        Ok(())
    }

    fn wait_all(&self, state: &mut State) -> Result<(), CoreError> {
        while !state.under_way.is_empty() {
            self.wait_oldest(state)?;
        }
        Ok(())
    }

    /// Submits what is gathered and waits until the device is done.
    pub fn sync(&self) -> Result<(), CoreError> {
        let mut state = self.state();
        self.flush(&mut state)?;
        self.wait_all(&mut state)
    }

    /// Starts a graph: launches go to it until it ends or is abandoned.
    pub fn begin_recording(&self) -> Result<(), CoreError> {
        let mut state = self.state();
        state.recording = Some(Recorder::begin(&self.device, state.profiling)?);
        Ok(())
    }

    pub fn end_recording(&self) -> Result<Recorded, CoreError> {
        match self.state().recording.take() {
            Some(recorder) => recorder.finish(),
            None => Err(CoreError::invalid("record", "no graph is being recorded")),
        }
    }

    pub fn abandon_recording(&self) {
        self.state().recording = None;
    }

    /// Submits a graph after all eager work.
    pub fn replay(&self, graph: &Arc<Recorded>) -> Result<(), CoreError> {
        let mut state = self.state();
        self.flush(&mut state)?;
        self.submit(&mut state, Arc::clone(graph))
    }

    pub fn set_profiling(&self, on: bool) {
        self.state().profiling = on;
    }
}

impl Drop for VulkanStream {
    fn drop(&mut self) {
        if let Err(error) = self.sync() {
            tracing::error!("closing {}: {error}", self.device.info.name);
        }
        let pipelines = &self.device.pipelines;
        pipelines
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .save();
    }
}
