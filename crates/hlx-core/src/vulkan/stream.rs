//! The stream of one Vulkan device: eager work is gathered and submitted in batches, graphs are
//! submitted whole, and nothing waits but a download.

use std::collections::VecDeque;
use std::num::NonZero;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::available_parallelism;
use std::time::{Duration, Instant};

use ash::vk;
use vulkano::VulkanObject;
use vulkano::sync::fence::Fence;

use super::device::HostMemory;
use super::pace::submissions;
use super::pipeline::PipelineRequest;
use super::recorder::{Arguments, Measured, Parts, Recorded, Recorder, View};
use super::recording::{Finished, Recording};
use super::staging::{HostRange, Staging};
use super::{Pace, VulkanDevice, check_raw, translate, translate_validated};
use crate::device::DeviceKind;
use crate::error::CoreError;
use crate::launch::{Binding, Launch};
use crate::memory::{BlockSource, Buffer, MemoryStatistics, PlannedMemory, TensorPool};
use crate::profile::{Profiler, Work};
use crate::recording::RecordingThread;

/// Eager launches gathered before they are submitted, so that the device starts early.
const LAUNCHES_PER_SUBMISSION: usize = 96;
/// Submissions under way before the host waits for the oldest.
const SUBMISSIONS_UNDER_WAY: usize = 8;

/// How long the host polls the fence before it blocks: waking up takes 0.1 to 0.4 ms (a call of a
/// small transformer on an H200: 1.30 ms instead of 1.48).
const POLLING: Duration = Duration::from_millis(20);
/// On a host of fewer cores, polling would take a core that other threads need.
const POLLING_CORES: usize = 4;

/// The stream; one lock guards all of it.
pub(crate) struct VulkanStream {
    device: Arc<VulkanDevice>,
    source: Arc<BlockSource>,
    pool: Arc<TensorPool>,
    /// Waits begin by polling. A software device needs the cores itself.
    polls: bool,
    profiler: Profiler,
    state: Mutex<State>,
}

/// The command buffers of a recorded graph, and the memory that it works in.
pub(crate) struct VulkanGraph {
    segments: Vec<Arc<Recorded>>,
    launches: usize,
    /// How long a submission of it may take, in nanoseconds.
    limit_ns: f64,
    memory: PlannedMemory,
    /// Buffers from outside that the launches use.
    _inputs: Vec<Buffer>,
}

impl VulkanGraph {
    /// The number of launches.
    pub fn len(&self) -> usize {
        self.launches
    }

    /// The memory of the buffers that the graph allocated.
    pub fn memory(&self) -> MemoryStatistics {
        self.memory.statistics
    }
}

struct State {
    eager: Option<Recorder>,
    recording: Option<(RecordingThread, Recording)>,
    under_way: VecDeque<Submission>,
    /// Submissions so far; those before the ones under way are done.
    submitted: u64,
    staging: Option<Staging>,
    /// Of eager command buffers that are done; making a pool costs more than filling it.
    spare: Vec<Parts>,
    /// Memory of downloads that were read, for the next ones.
    spare_host: Vec<HostMemory>,
    /// Of the handle that launched last.
    pace: Pace,
    profiling: bool,
}

/// A download under way.
pub(crate) struct ReadBack {
    memory: HostMemory,
    words: usize,
    /// The submission that copies them.
    submission: u64,
}

/// Command buffers on the device, and the fence that tells when they are done.
struct Submission {
    fence: Fence,
    began: Instant,
    /// The eager work that went first, if there was any.
    eager: Option<Recorded>,
    graph: Vec<Arc<Recorded>>,
}

impl State {
    /// Submissions that are known to be done.
    fn done(&self) -> u64 {
        self.submitted - self.under_way.len() as u64
    }
}

impl VulkanStream {
    pub fn new(device: Arc<VulkanDevice>, source: Arc<BlockSource>, pace: Pace) -> Self {
        let state = State {
            eager: None,
            recording: None,
            under_way: VecDeque::new(),
            submitted: 0,
            staging: None,
            spare: Vec::new(),
            spare_host: Vec::new(),
            pace,
            profiling: false,
        };
        let cores = available_parallelism().map_or(1, NonZero::get);
        let polls = device.info.kind == DeviceKind::VulkanGpu && cores >= POLLING_CORES;
        Self {
            device,
            pool: TensorPool::new(Arc::clone(&source)),
            source,
            polls,
            profiler: Profiler::default(),
            state: Mutex::new(state),
        }
    }

    pub fn pool(&self) -> &Arc<TensorPool> {
        &self.pool
    }

    pub fn profiler(&self) -> &Profiler {
        &self.profiler
    }

    pub fn device(&self) -> &Arc<VulkanDevice> {
        &self.device
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Locks the stream for an operation. While another thread records a graph, it is an error:
    /// the launch would be missing in the graph, or end up in it.
    fn lock(&self, operation: &str) -> Result<MutexGuard<'_, State>, CoreError> {
        let state = self.state();
        if let Some((thread, _)) = &state.recording {
            thread.check(operation)?;
        }
        Ok(state)
    }

    /// Locks the stream for an operation that cannot be part of a graph.
    fn lock_unrecorded(&self, operation: &str) -> Result<MutexGuard<'_, State>, CoreError> {
        let state = self.lock(operation)?;
        match state.recording {
            None => Ok(state),
            Some(_) => Err(RecordingThread::not_recordable(operation)),
        }
    }

    pub fn alloc(&self, len: usize) -> Result<Buffer, CoreError> {
        match &self.lock("alloc")?.recording {
            Some((_, recording)) => Ok(recording.allocate(len)),
            None => self.pool.allocate(len),
        }
    }

    /// Runs `body`, which adds `work`, with the recorder of eager work.
    fn with_eager(
        &self,
        state: &mut State,
        work: Work,
        body: impl FnOnce(&mut Recorder) -> Result<(), CoreError>,
    ) -> Result<(), CoreError> {
        let (pace, estimate) = (state.pace, state.pace.estimate_ns(work));
        let gathered = state.eager.as_ref().map_or(0.0, Recorder::estimate_ns);
        if gathered + estimate > pace.limit_ns {
            self.submit(state, &[])?;
        }
        let recorder = self.eager(state)?;
        body(recorder)?;
        recorder.add_estimate(estimate);
        if recorder.launches() >= LAUNCHES_PER_SUBMISSION {
            self.submit(state, &[])?;
        }
        Ok(())
    }

    fn eager<'a>(&self, state: &'a mut State) -> Result<&'a mut Recorder, CoreError> {
        let profiling = state.profiling;
        match &mut state.eager {
            Some(recorder) => Ok(recorder),
            slot => {
                let measured = match profiling {
                    true => Measured::Launches,
                    false => Measured::No,
                };
                let spare = state.spare.pop();
                Ok(slot.insert(Recorder::begin(&self.device, measured, spare)?))
            }
        }
    }

    /// Launches a kernel of the program, or keeps it for the graph being recorded. The caller has
    /// checked it.
    pub fn launch(&self, launch: &Launch<'_>, work: Work, pace: Pace) -> Result<(), CoreError> {
        let mut state = self.lock(launch.name)?;
        if let Some((_, recording)) = &mut state.recording {
            return recording.dispatch(launch, work);
        }
        state.pace = pace;
        let ranges = pace.cut(launch, work);
        let request = PipelineRequest::of(launch, &self.device, ranges.len() > 1);
        let pipeline = self.device.pipelines().get(&self.device, &request)?;
        let views: Vec<View> = launch.bindings.iter().map(View::of).collect();
        for range in ranges {
            let arguments = Arguments {
                views: &views,
                push: launch.push,
                groups: range,
            };
            let work = range.share(work, launch.groups);
            self.with_eager(&mut state, work, |recorder| {
                recorder.dispatch((launch.name, work), &pipeline, &arguments)
            })?;
        }
        Ok(())
    }

    pub fn fill(&self, buffer: &Buffer, word: u32) -> Result<(), CoreError> {
        let mut state = self.lock("fill")?;
        if let Some((_, recording)) = &mut state.recording {
            recording.fill(buffer, word);
            return Ok(());
        }
        let binding = Binding::Write(buffer);
        let (work, target) = (Work::of(&[binding]), View::of(&binding));
        self.with_eager(&mut state, work, |recorder| recorder.fill(&target, word))
    }

    pub fn copy(&self, source: &Buffer, target: &Buffer) -> Result<(), CoreError> {
        let mut state = self.lock("copy")?;
        if let Some((_, recording)) = &mut state.recording {
            recording.copy(source, target);
            return Ok(());
        }
        let bindings = [Binding::Read(source), Binding::Write(target)];
        let [source, target] = bindings.each_ref().map(View::of);
        self.with_eager(&mut state, Work::of(&bindings), |recorder| {
            recorder.copy(&source, &target)
        })
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
                self.submit(&mut state, &[])?;
                let submitted = state.submitted;
                let last_use = self.staging(&mut state)?.advance(submitted);
                self.wait_for(&mut state, last_use)?;
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
            self.submit(&mut state, &[])?;
            // The host would only wait, and a run that is stopped later finds its pipelines.
            self.device.pipelines().save();
            self.wait_all(&mut state)?;
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
        self.submit(&mut state, &[])?;
        Ok(ReadBack {
            memory,
            words: buffer.len(),
            submission: state.submitted,
        })
    }

    /// Whether the words have arrived.
    pub fn has_arrived(&self, pending: &ReadBack) -> Result<bool, CoreError> {
        let mut state = self.state();
        while let Some(oldest) = state.under_way.front() {
            let done = oldest.fence.is_signaled().map_err(|error| {
                translate_validated(
                    &self.device.info.name,
                    "poll a fence",
                    vulkano::Validated::Error(error),
                )
            })?;
            if !done {
                break;
            }
            self.wait_oldest(&mut state)?;
        }
        Ok(state.done() >= pending.submission)
    }

    /// Waits for the words, and keeps their memory for another time.
    pub fn receive(&self, pending: ReadBack) -> Result<Vec<u32>, CoreError> {
        let mut state = self.state();
        self.wait_for(&mut state, pending.submission)?;
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

    /// Submits the eager work gathered so far and, behind it, a graph's command buffers.
    fn submit(&self, state: &mut State, graph: &[Arc<Recorded>]) -> Result<(), CoreError> {
        let name = &self.device.info.name;
        let gathered = state.eager.take().filter(|eager| eager.launches() > 0);
        let eager = gathered.map(Recorder::finish).transpose()?;
        let work = || eager.iter().chain(graph.iter().map(Arc::as_ref));
        let command_buffers: Vec<vk::CommandBuffer> = work().map(Recorded::handle).collect();
        if command_buffers.is_empty() {
            return Ok(());
        }
        let fence = Fence::from_pool(Arc::clone(&self.device.device))
            .map_err(|error| translate(name, "create a fence", error))?;
        let info = vk::SubmitInfo::default().command_buffers(&command_buffers);
        let submit = self.device.device.fns().v1_0.queue_submit;
        // SAFETY: `with` holds the queue's lock; the command buffers and all they use are kept
        // alive by the submission until the fence is signalled.
        let result = self
            .device
            .queue
            .with(|_guard| unsafe { submit(self.device.queue.handle(), 1, &info, fence.handle()) });
        check_raw(name, "submit", result)?;
        let timed = work().any(Recorded::is_timed);
        state.submitted += 1;
        state.under_way.push_back(Submission {
            fence,
            began: Instant::now(),
            eager,
            graph: graph.to_vec(),
        });
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
        let failed = |error| {
            let error = vulkano::Validated::Error(error);
            let error = translate_validated(&self.device.info.name, "wait for the device", error);
            explain_loss(error, submission.began.elapsed(), state.pace.limit_ns)
        };
        let began = Instant::now();
        while self.polls && began.elapsed() < POLLING {
            if submission.fence.is_signaled().map_err(failed)? {
                break;
            }
            std::hint::spin_loop();
        }
        submission.fence.wait(None).map_err(failed)?;
        let Some(Submission { eager, graph, .. }) = state.under_way.pop_front() else {
            return Ok(());
        };
        for work in eager.iter().chain(graph.iter().map(Arc::as_ref)) {
            work.collect(&self.profiler)?;
        }
        state.spare.extend(eager.and_then(Recorded::into_parts));
        Ok(())
    }

    /// Waits until this many submissions are done.
    fn wait_for(&self, state: &mut State, count: u64) -> Result<(), CoreError> {
        while state.done() < count {
            self.wait_oldest(state)?;
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
        self.submit(&mut state, &[])?;
        self.wait_all(&mut state)
    }

    /// Starts a graph: this thread's launches go to it until it ends or is abandoned.
    pub fn begin_recording(&self, pace: Pace) -> Result<(), CoreError> {
        let mut state = self.lock_unrecorded("record")?;
        let recording = Recording::new(&self.device, &self.source, pace, state.profiling);
        state.recording = Some((RecordingThread::current(), recording));
        Ok(())
    }

    /// Ends the graph; its buffers get their places.
    pub fn end_recording(&self) -> Result<VulkanGraph, CoreError> {
        let recording = self.state().recording.take();
        let (_, recording) = recording.ok_or_else(RecordingThread::none_recording)?;
        let limit_ns = recording.limit_ns();
        let Finished {
            launches,
            segments,
            memory,
            inputs,
        } = recording.finish(&self.pool)?;
        Ok(VulkanGraph {
            segments: segments.into_iter().map(Arc::new).collect(),
            launches,
            limit_ns,
            memory,
            _inputs: inputs,
        })
    }

    pub fn abandon_recording(&self) {
        self.state().recording = None;
    }

    pub fn is_recording(&self) -> bool {
        self.state().recording.is_some()
    }

    /// Submits all eager work and a graph behind it: together, unless the graph is long by its
    /// last run's times or, at first, by estimate.
    pub fn replay(&self, graph: &VulkanGraph) -> Result<(), CoreError> {
        let mut state = self.lock_unrecorded("replay")?;
        let times: Vec<f64> = graph.segments.iter().map(|s| s.time_ns()).collect();
        for range in submissions(&times, graph.limit_ns) {
            self.submit(&mut state, &graph.segments[range])?;
        }
        Ok(())
    }

    /// Submits all eager work and a command buffer behind it, together.
    pub fn submit_recorded(&self, recorded: &Arc<Recorded>) -> Result<(), CoreError> {
        let mut state = self.lock_unrecorded("submit")?;
        self.submit(&mut state, std::slice::from_ref(recorded))
    }

    /// The number of submissions so far.
    pub fn submissions(&self) -> u64 {
        self.state().submitted
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
        self.device.pipelines().save();
    }
}

/// Adds to the error of a lost device, if it was lost long after a submission began, that the
/// driver's time-out is the probable cause, and what helps.
fn explain_loss(error: CoreError, elapsed: Duration, limit_ns: f64) -> CoreError {
    /// Windows and most Linux drivers reset a device after two seconds.
    const SUSPICIOUS: Duration = Duration::from_secs(1);
    match error {
        CoreError::DeviceLost { device, during, .. } if elapsed >= SUSPICIOUS => {
            let seconds = elapsed.as_secs_f64();
            let limit_ms = limit_ns * 1e-6;
            let hint = format!(
                "; probably a time-out of the driver, {seconds:.1} s after the submission: set \
                 HLX_SUBMISSION_MS below {limit_ms}, or raise the driver's limit (TdrDelay on \
                 Windows)"
            );
            CoreError::DeviceLost {
                device,
                during,
                hint,
            }
        }
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_device_lost_after_seconds_is_explained_as_a_time_out() {
        let lost = || CoreError::DeviceLost {
            device: "GPU".to_owned(),
            during: "wait for the device".to_owned(),
            hint: String::new(),
        };
        let text = |millis| explain_loss(lost(), Duration::from_millis(millis), 200e6).to_string();
        assert_eq!(
            text(20),
            "device `GPU` was lost during wait for the device; checkpoints on disk are whole"
        );
        assert_eq!(
            text(2100),
            "device `GPU` was lost during wait for the device; checkpoints on disk are whole; \
             probably a time-out of the driver, 2.1 s after the submission: set \
             HLX_SUBMISSION_MS below 200, or raise the driver's limit (TdrDelay on Windows)"
        );
    }
}
