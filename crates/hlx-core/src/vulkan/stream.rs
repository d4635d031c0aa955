//! The stream of one Vulkan device: eager work is gathered and submitted in batches, graphs are
//! submitted whole, and nothing waits but a download.

mod transfer;

use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

pub(crate) use self::transfer::{HostCopy, PinnedWords};
use super::arguments::Arguments;
use super::pace::{Groups, submissions};
use super::pipeline::{Pipeline, PipelineRequest};
use super::recorded::Recorded;
use super::recorder::{Measured, Recorder};
use super::recording::{Finished, Recording};
use super::sharing::{Timeline, TimelineValue};
use super::staging::Staging;
use super::submissions::{Order, Submissions};
use super::{Pace, VulkanDevice};
use crate::error::CoreError;
use crate::fusion::Fusable;
use crate::launch::{Binding, Launch};
use crate::memory::{BlockSource, Buffer, MemoryStatistics, PlannedMemory, TensorPool};
use crate::recording::{RecordingOptions, RecordingThread};
use crate::timing::{TimingCollector, Work};
use crate::view::View;

/// Eager launches gathered before they are submitted, so that the device starts early.
const LAUNCHES_PER_SUBMISSION: usize = 96;

/// The stream; one lock guards all of it.
pub(crate) struct VulkanStream {
    device: Arc<VulkanDevice>,
    source: Arc<BlockSource>,
    pool: Arc<TensorPool>,
    timings: Arc<TimingCollector>,
    state: Mutex<State>,
}

/// The command buffers of a recorded graph, and the memory that it works in.
pub(crate) struct VulkanGraph {
    segments: Vec<Arc<Recorded>>,
    /// How many of them go before each watched window is final.
    cuts: Vec<usize>,
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

    /// How many command buffers must have run before each watched window is final.
    pub fn cuts(&self) -> &[usize] {
        &self.cuts
    }

    /// The memory of the buffers that the graph allocated.
    pub fn memory(&self) -> MemoryStatistics {
        self.memory.statistics
    }
}

struct State {
    eager: Option<Recorder>,
    recording: Option<(RecordingThread, Recording)>,
    submissions: Submissions,
    /// What the next submission waits for.
    waits: Vec<TimelineValue>,
    staging: Option<Staging>,
    /// Memory of downloads that were read, for the next ones.
    spare_host: Vec<PinnedWords>,
    /// The tuning's pace for the handle that launched last.
    pace: Pace,
    timing: bool,
}

impl State {
    /// Submits the eager work gathered so far and, after it, a graph's command buffers.
    fn submit(&mut self, graph: &[Arc<Recorded>]) -> Result<(), CoreError> {
        self.submit_and_raise(graph, Vec::new())
    }

    /// As [`State::submit`], and raises timelines when the work is done.
    fn submit_and_raise(
        &mut self,
        graph: &[Arc<Recorded>],
        signals: Vec<TimelineValue>,
    ) -> Result<(), CoreError> {
        let eager = self.eager.take();
        let waits = std::mem::take(&mut self.waits);
        let order = Order { waits, signals };
        let limit = self.pace.limit_ns;
        self.submissions.submit(eager, graph, limit, order)
    }
}

impl VulkanStream {
    pub fn new(device: Arc<VulkanDevice>, source: Arc<BlockSource>, pace: Pace) -> Self {
        let timings = Arc::default();
        let state = State {
            eager: None,
            recording: None,
            submissions: Submissions::new(&device, &timings),
            waits: Vec::new(),
            staging: None,
            spare_host: Vec::new(),
            pace,
            timing: false,
        };
        Self {
            device,
            pool: TensorPool::new(Arc::clone(&source)),
            source,
            timings,
            state: Mutex::new(state),
        }
    }

    pub fn pool(&self) -> &Arc<TensorPool> {
        &self.pool
    }

    pub fn timings(&self) -> &TimingCollector {
        &self.timings
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
            Some((_, recording)) => recording.allocate(len),
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
            state.submit(&[])?;
        }
        let recorder = self.eager(state)?;
        body(recorder)?;
        recorder.add_estimate(estimate);
        if recorder.launches() >= LAUNCHES_PER_SUBMISSION {
            state.submit(&[])?;
        }
        Ok(())
    }

    fn eager<'a>(&self, state: &'a mut State) -> Result<&'a mut Recorder, CoreError> {
        let timing = state.timing;
        match &mut state.eager {
            Some(recorder) => Ok(recorder),
            slot => {
                let measured = match timing {
                    true => Measured::Launches,
                    false => Measured::No,
                };
                let spare = state.submissions.take_spare();
                Ok(slot.insert(Recorder::begin(&self.device, measured, spare)?))
            }
        }
    }

    /// Launches a kernel of the program, or adds it to the graph being recorded. The caller has
    /// checked it.
    pub fn launch(
        &self,
        launch: &Launch<'_>,
        work: Work,
        pace: Pace,
        fusable: Option<Arc<dyn Fusable>>,
    ) -> Result<(), CoreError> {
        let mut state = self.lock(launch.name)?;
        if let Some((_, recording)) = &mut state.recording {
            return recording.dispatch(launch, work, fusable);
        }
        let ranges = pace.cut(launch, work);
        let bindings = launch.bindings.len();
        let request = PipelineRequest::of(launch, bindings, &self.device, ranges.len() > 1);
        let pipeline = match self.device.known_pipeline(&request) {
            Some(pipeline) => pipeline,
            None => {
                drop(state);
                let pipeline = self.device.make_pipeline(&request)?;
                state = self.lock(launch.name)?;
                pipeline
            }
        };
        state.pace = pace;
        let views: Vec<View> = launch.bindings.iter().map(View::of).collect();
        for range in ranges {
            let arguments = Arguments {
                views: &views,
                push: launch.push,
                groups: range,
            };
            let work = range.share(work, launch.groups);
            self.with_eager(&mut state, work, |recorder| {
                recorder.dispatch(launch.name, work, &pipeline, &arguments)
            })?;
        }
        Ok(())
    }

    /// Launches a pipeline that is made already, or adds it to the graph being recorded. The caller has checked it.
    pub fn launch_pipeline(
        &self,
        name: &'static str,
        pipeline: &Arc<Pipeline>,
        bindings: &[Binding<'_>],
        push: &[u8],
        groups: [u32; 3],
    ) -> Result<(), CoreError> {
        let mut state = self.lock(name)?;
        if let Some((_, recording)) = &mut state.recording {
            return recording.dispatch_made(name, pipeline, bindings, push, groups);
        }
        let views: Vec<View> = bindings.iter().map(View::of).collect();
        let arguments = Arguments {
            views: &views,
            push,
            groups: Groups::all(groups),
        };
        let work = Work::of(bindings);
        self.with_eager(&mut state, work, |recorder| {
            recorder.dispatch(name, work, pipeline, &arguments)
        })
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

    /// Submits what is gathered and waits until the device is done.
    pub fn sync(&self) -> Result<(), CoreError> {
        let mut state = self.state();
        state.submit(&[])?;
        state.submissions.wait_all()
    }

    /// Starts a graph: this thread's launches go to it until it ends or is abandoned.
    pub fn begin_recording(&self, pace: Pace, options: RecordingOptions) -> Result<(), CoreError> {
        let mut state = self.lock_unrecorded("record")?;
        let recording = Recording::new(&self.device, &self.source, pace, state.timing, options);
        state.recording = Some((RecordingThread::current(), recording));
        Ok(())
    }

    /// Ends the graph; its buffers get their places. It is cut where the watched windows are final.
    pub fn end_recording(&self, watched: &[Buffer]) -> Result<VulkanGraph, CoreError> {
        let recording = self.state().recording.take();
        let (_, recording) = recording.ok_or_else(RecordingThread::none_recording)?;
        let limit_ns = recording.limit_ns();
        let Finished {
            launches,
            segments,
            cuts,
            memory,
            inputs,
        } = recording.finish(&self.pool, watched)?;
        Ok(VulkanGraph {
            segments: segments.into_iter().map(Arc::new).collect(),
            cuts,
            launches,
            limit_ns,
            memory,
            _inputs: inputs,
        })
    }

    /// Ends the recording without a graph, and returns the memory that it would hold.
    pub fn measure_recording(&self) -> Result<MemoryStatistics, CoreError> {
        let recording = self.state().recording.take();
        let (_, recording) = recording.ok_or_else(RecordingThread::none_recording)?;
        recording.measure()
    }

    pub fn abandon_recording(&self) {
        self.state().recording = None;
    }

    pub fn is_recording(&self) -> bool {
        self.state().recording.is_some()
    }

    /// Submits all eager work and some of a graph's command buffers after it: together, unless they are
    /// long by their last run's times or, at first, by estimate.
    pub fn replay(&self, graph: &VulkanGraph, part: Range<usize>) -> Result<(), CoreError> {
        let mut state = self.lock_unrecorded("replay")?;
        let segments = &graph.segments[part.start..part.end.min(graph.segments.len())];
        let times: Vec<f64> = segments.iter().map(|s| s.time_ns()).collect();
        for range in submissions(&times, graph.limit_ns) {
            state.submit(&segments[range])?;
        }
        Ok(())
    }

    /// Submits all eager work and a command buffer after it, together.
    pub fn submit_recorded(&self, recorded: &Arc<Recorded>) -> Result<(), CoreError> {
        let mut state = self.lock_unrecorded("submit")?;
        state.submit(std::slice::from_ref(recorded))
    }

    /// Submits what is gathered; when all of it is done, the timeline has the value.
    pub fn raise(&self, timeline: &Timeline, value: u64) -> Result<(), CoreError> {
        timeline.check_device("raise a timeline", &self.device.device)?;
        let timeline = timeline.clone();
        let mut state = self.lock_unrecorded("raise a timeline")?;
        state.submit_and_raise(&[], vec![TimelineValue { timeline, value }])
    }

    /// Submits what is gathered; what comes next begins when the timeline has the value.
    pub fn await_value(&self, timeline: &Timeline, value: u64) -> Result<(), CoreError> {
        timeline.check_device("await a timeline", &self.device.device)?;
        let timeline = timeline.clone();
        let mut state = self.lock_unrecorded("await a timeline")?;
        state.submit(&[])?;
        state.waits.push(TimelineValue { timeline, value });
        Ok(())
    }

    /// The number of submissions so far.
    pub fn submissions(&self) -> u64 {
        self.state().submissions.count()
    }

    pub fn set_timing(&self, on: bool) {
        self.state().timing = on;
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
