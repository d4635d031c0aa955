//! The stream of the CPU device: launches run one after the other, each on all worker threads.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, mpsc};
use std::time::Instant;

use rayon::ThreadPool;

use crate::error::CoreError;
use crate::launch::{Binding, CpuBindings, CpuLaunch, Launch};
use crate::memory::{BlockMemory, BlockSource, Buffer, MemoryStatistics, TensorPool};
use crate::recording::RecordingThread;
use crate::timing::{TimingCollector, Work};

/// The stream. Its lock is held while a launch runs, so that no two touch the memory at once.
pub(crate) struct CpuStream {
    threads: ThreadPool,
    source: Arc<BlockSource>,
    pool: Arc<TensorPool>,
    timings: Arc<TimingCollector>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    recording: Option<Recording>,
    timing: bool,
}

/// A graph being recorded. Its buffers come from a pool of its own, so that replays never touch
/// what others were given.
struct Recording {
    thread: RecordingThread,
    pool: Arc<TensorPool>,
    launches: Vec<CpuLaunch>,
}

/// The launches of a recorded graph, and the pool of the buffers they work in.
pub(crate) struct CpuGraph {
    launches: Arc<[CpuLaunch]>,
    pool: Arc<TensorPool>,
}

impl CpuGraph {
    /// The number of launches.
    pub fn len(&self) -> usize {
        self.launches.len()
    }

    /// The memory of the buffers that the graph allocated.
    pub fn memory(&self) -> MemoryStatistics {
        self.pool.statistics()
    }
}

impl CpuStream {
    pub fn new(threads: ThreadPool, source: Arc<BlockSource>) -> Self {
        Self {
            threads,
            pool: TensorPool::new(Arc::clone(&source)),
            source,
            timings: Arc::default(),
            state: Mutex::default(),
        }
    }

    /// The number of worker threads.
    pub fn threads(&self) -> usize {
        self.threads.current_num_threads()
    }

    pub fn pool(&self) -> &Arc<TensorPool> {
        &self.pool
    }

    pub fn timings(&self) -> &TimingCollector {
        &self.timings
    }

    /// Locks the stream for an operation. A CPU body that launches would wait for itself, and
    /// another thread's launch would be missing in the graph being recorded: both are errors.
    fn lock(&self, operation: &str) -> Result<MutexGuard<'_, State>, CoreError> {
        if self.threads.current_thread_index().is_some() {
            let reason = "called from the CPU body of a launch on the same context";
            return Err(CoreError::invalid(operation, reason));
        }
        let state = self.state();
        if let Some(recording) = &state.recording {
            recording.thread.check(operation)?;
        }
        Ok(state)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
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
        let pool = match &self.lock("alloc")?.recording {
            Some(recording) => Arc::clone(&recording.pool),
            None => Arc::clone(&self.pool),
        };
        pool.allocate(len)
    }

    /// Runs a launch, or keeps it for the graph being recorded. The caller has checked it.
    pub fn launch<F>(&self, launch: &Launch<'_>, work: Work, body: F) -> Result<(), CoreError>
    where
        F: Fn(&mut CpuBindings<'_>) + Send + Sync + 'static,
    {
        self.run_or_record((launch.name, work), launch.bindings, body)
    }

    pub fn fill(&self, buffer: &Buffer, word: u32) -> Result<(), CoreError> {
        let bindings = [Binding::Write(buffer)];
        self.run_or_record(("fill", Work::of(&bindings)), &bindings, move |bindings| {
            let ([], [out]) = bindings.split();
            out.fill(f32::from_bits(word));
        })
    }

    pub fn copy(&self, source: &Buffer, target: &Buffer) -> Result<(), CoreError> {
        let bindings = [Binding::Read(source), Binding::Write(target)];
        self.run_or_record(("copy", Work::of(&bindings)), &bindings, |bindings| {
            let ([source], [target]) = bindings.split();
            target.copy_from_slice(source);
        })
    }

    fn run_or_record<F>(
        &self,
        kind: (&'static str, Work),
        bindings: &[Binding<'_>],
        body: F,
    ) -> Result<(), CoreError>
    where
        F: Fn(&mut CpuBindings<'_>) + Send + Sync + 'static,
    {
        let mut state = self.lock(kind.0)?;
        let pool = state.recording.as_ref().map(|recording| &recording.pool);
        let ready = CpuLaunch::new(kind, bindings, pool, Box::new(body))?;
        match &mut state.recording {
            Some(recording) => recording.launches.push(ready),
            None => self.run(&Arc::from([ready]), state.timing),
        }
        Ok(())
    }

    /// Runs launches in order on the workers; the caller holds the lock.
    ///
    /// A thread of another rayon pool must not wait by `install`: rayon would let it take up
    /// another job of its own pool meanwhile, and if that one launches on this context, it waits
    /// for the lock that its own thread holds.
    fn run(&self, launches: &Arc<[CpuLaunch]>, timing: bool) {
        let timings = timing.then(|| Arc::clone(&self.timings));
        if rayon::current_thread_index().is_none() {
            return self
                .threads
                .install(|| run_in_order(launches, timings.as_deref()));
        }
        let (sender, receiver) = mpsc::sync_channel(1);
        let launches = Arc::clone(launches);
        self.threads.spawn(move || {
            let body = AssertUnwindSafe(|| run_in_order(&launches, timings.as_deref()));
            let outcome = catch_unwind(body);
            drop(launches);
            // The receiver waits for exactly this message.
            let _ = sender.send(outcome);
        });
        if let Ok(Err(panic)) = receiver.recv() {
            resume_unwind(panic);
        }
    }

    /// Copies words, each through `map`, into the buffer.
    pub fn upload(
        &self,
        buffer: &Buffer,
        data: &[u32],
        map: impl Fn(u32) -> u32,
    ) -> Result<(), CoreError> {
        let _lock = self.lock_unrecorded("upload")?;
        let target = words(buffer, "upload")?;
        for (idx, &word) in data.iter().take(buffer.len()).enumerate() {
            // SAFETY: the index is inside the buffer, whose words nobody touches while the
            // stream is locked.
            unsafe { target.add(idx).write(map(word)) };
        }
        Ok(())
    }

    /// Returns a copy of the buffer's words.
    pub fn download(&self, buffer: &Buffer) -> Result<Vec<u32>, CoreError> {
        let _lock = self.lock_unrecorded("download")?;
        let source = words(buffer, "download")?;
        // SAFETY: the words are the buffer's, and nobody writes them while the stream is locked.
        let words = unsafe { std::slice::from_raw_parts(source, buffer.len()) };
        Ok(words.to_vec())
    }

    /// Starts a graph: this thread's launches go to it until it ends or is abandoned.
    pub fn begin_recording(&self) -> Result<(), CoreError> {
        let mut state = self.lock_unrecorded("record")?;
        state.recording = Some(Recording {
            thread: RecordingThread::current(),
            pool: TensorPool::new(Arc::clone(&self.source)),
            launches: Vec::new(),
        });
        Ok(())
    }

    /// Ends the graph.
    pub fn end_recording(&self) -> Result<CpuGraph, CoreError> {
        let recording = self.state().recording.take();
        let Recording { pool, launches, .. } =
            recording.ok_or_else(RecordingThread::none_recording)?;
        Ok(CpuGraph {
            launches: launches.into(),
            pool,
        })
    }

    pub fn abandon_recording(&self) {
        self.state().recording = None;
    }

    pub fn is_recording(&self) -> bool {
        self.state().recording.is_some()
    }

    /// Runs a graph's launches.
    pub fn replay(&self, graph: &CpuGraph) -> Result<(), CoreError> {
        let state = self.lock_unrecorded("replay")?;
        self.run(&graph.launches, state.timing);
        Ok(())
    }

    pub fn set_timing(&self, on: bool) {
        self.state().timing = on;
    }
}

/// Runs launches on the calling worker and those it shares its work with.
fn run_in_order(launches: &[CpuLaunch], timings: Option<&TimingCollector>) {
    for launch in launches {
        let start = Instant::now();
        launch.run();
        if let Some(timings) = timings {
            let began_ns = start.duration_since(timings.origin).as_secs_f64() * 1e9;
            let duration_ns = start.elapsed().as_secs_f64() * 1e9;
            timings.add(launch.name, launch.work, began_ns, duration_ns);
        }
    }
}

/// The address of the buffer's first word.
fn words(buffer: &Buffer, operation: &str) -> Result<*mut u32, CoreError> {
    match &buffer.block().memory {
        BlockMemory::Cpu(memory) => Ok(memory.at(buffer.offset()).cast()),
        _ => Err(CoreError::invalid(
            operation,
            "a buffer of a Vulkan device on the CPU",
        )),
    }
}
