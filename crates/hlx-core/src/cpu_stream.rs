//! The stream of the CPU device: launches run one after the other, each on all worker threads.

use std::collections::{HashMap, HashSet};
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, mpsc};
use std::time::Instant;

use rayon::ThreadPool;

use crate::cpu;
use crate::error::CoreError;
use crate::fusion::{CHAIN_NAME, Chain, Fusable, Limits, Node, Planned, fuse};
use crate::launch::{Binding, CpuBindings, CpuBody, CpuLaunch, Launch};
use crate::memory::{
    BlockMemory, BlockSource, Buffer, Heirs, Lifetimes, MemoryPlan, MemoryStatistics,
    PlannedMemory, TensorPool,
};
use crate::recording::{RecordingOptions, RecordingThread};
use crate::timing::{TimingCollector, Work};
use crate::unread::needed;
use crate::view::{Access, View};
use crate::watched::final_after;

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

/// A graph being recorded; its buffers get their places when it ends.
struct Recording {
    thread: RecordingThread,
    options: RecordingOptions,
    plan: Arc<MemoryPlan>,
    launches: Vec<Recorded>,
    /// The buffers from outside, by block and first word. The graph owns them.
    inputs: HashMap<(u64, usize), Buffer>,
}

/// A launch of a graph being recorded.
struct Recorded {
    kind: (&'static str, Work),
    views: Vec<View>,
    body: CpuBody,
    fusable: Option<Arc<dyn Fusable>>,
}

/// The launches of a recorded graph, and the memory that they work in.
pub(crate) struct CpuGraph {
    /// Cut after the launches that make watched windows final.
    parts: Vec<Arc<[CpuLaunch]>>,
    /// How many parts go before each of the windows.
    cuts: Vec<usize>,
    memory: PlannedMemory,
    /// Buffers from outside that the launches use.
    _inputs: Vec<Buffer>,
}

impl CpuGraph {
    /// The number of launches.
    pub fn len(&self) -> usize {
        self.parts.iter().map(|part| part.len()).sum()
    }

    /// How many parts must have run before each watched window is final.
    pub fn cuts(&self) -> &[usize] {
        &self.cuts
    }

    /// The memory of the buffers that the graph allocated.
    pub fn memory(&self) -> MemoryStatistics {
        self.memory.statistics
    }
}

impl Recording {
    fn add(&mut self, launch: Recorded, bindings: &[Binding<'_>]) {
        for buffer in bindings.iter().map(Binding::buffer) {
            if !buffer.is_unplaced() {
                let place = (buffer.block().id, buffer.offset());
                self.inputs.entry(place).or_insert_with(|| buffer.clone());
            }
        }
        self.launches.push(launch);
    }

    /// Drops what nobody reads and joins what can be joined; returns the launches left, and which of them first and last
    /// touch each buffer.
    fn arrange(&mut self) -> (Vec<Recorded>, Lifetimes) {
        let (mut launches, dropped) = (std::mem::take(&mut self.launches), self.plan.dropped());
        if self.options.skips_unread {
            let views = launches.iter().map(|launch| launch.views.as_slice());
            let mut needed = needed(&views.collect::<Vec<_>>(), &dropped).into_iter();
            launches.retain(|_| needed.next().unwrap_or(true));
        }
        if self.options.joins {
            launches = joined(launches, &dropped);
        }
        let mut lifetimes = Lifetimes::new();
        for (at, launch) in launches.iter().enumerate() {
            for view in &launch.views {
                let life = lifetimes.entry(view.block_id()).or_insert((at, at));
                life.1 = at;
            }
        }
        (launches, lifetimes)
    }

    /// The memory that the graph would hold.
    fn measure(mut self) -> MemoryStatistics {
        let (_launches, lifetimes) = self.arrange();
        self.plan.measure(&lifetimes, &Heirs::new())
    }

    /// Gives each buffer its place; those whose handles are still held get it in `pool`.
    fn finish(mut self, pool: &Arc<TensorPool>, watched: &[Buffer]) -> Result<CpuGraph, CoreError> {
        let (launches, lifetimes) = self.arrange();
        let memory = self.plan.place(&lifetimes, &Heirs::new(), pool)?;
        let accesses: Vec<Vec<Access>> = launches.iter().map(Recorded::accesses).collect();
        let places = accesses.iter().map(Vec::as_slice).zip(0..);
        let finals = final_after(watched, places);
        let ready = |launch: Recorded| {
            let (name, work) = launch.kind;
            CpuLaunch::new(name, work, &launch.views, launch.body)
        };
        let launches: Result<Vec<CpuLaunch>, CoreError> = launches.into_iter().map(ready).collect();
        let (parts, cuts) = cut(launches?, &finals);
        Ok(CpuGraph {
            parts,
            cuts,
            memory,
            _inputs: self.inputs.into_values().collect(),
        })
    }
}

/// The launches in parts that end after these places, which rise; and for each place the parts before it.
fn cut(launches: Vec<CpuLaunch>, places: &[usize]) -> (Vec<Arc<[CpuLaunch]>>, Vec<usize>) {
    let (mut parts, mut cuts, mut begun) = (Vec::new(), Vec::new(), 0);
    let mut launches = launches.into_iter();
    for &place in places {
        if place > begun {
            parts.push(launches.by_ref().take(place - begun).collect());
            begun = place;
        }
        cuts.push(parts.len());
    }
    parts.push(launches.collect());
    (parts, cuts)
}

/// The launches with chains of them as one each.
fn joined(launches: Vec<Recorded>, dropped: &HashSet<u64>) -> Vec<Recorded> {
    let accesses: Vec<Vec<Access>> = launches.iter().map(Recorded::accesses).collect();
    let nodes = launches.iter().zip(&accesses);
    let nodes: Vec<Node<'_>> = nodes
        .map(|(launch, accesses)| Node {
            accesses,
            fusable: launch.fusable.as_ref(),
        })
        .collect();
    let planned = fuse(&nodes, &|block| dropped.contains(&block), Limits::NONE);
    let mut launches: Vec<Option<Recorded>> = launches.into_iter().map(Some).collect();
    planned
        .into_iter()
        .filter_map(|planned| match planned {
            Planned::Alone(at) => launches[at].take(),
            Planned::Chain(chain) => Some(Recorded::of_chain(&chain, &launches)),
        })
        .collect()
}

impl Recorded {
    fn accesses(&self) -> Vec<Access> {
        self.views.iter().map(View::access).collect()
    }

    fn of_chain(chain: &Chain, launches: &[Option<Self>]) -> Self {
        let of = |&(launch, binding): &(usize, usize)| {
            Some(launches[launch].as_ref()?.views[binding].clone())
        };
        let views: Vec<View> = chain.bindings.iter().filter_map(of).collect();
        let members = chain.members.iter().filter_map(|&at| launches[at].as_ref());
        let flops = members.map(|launch| launch.kind.1.flops);
        let work = Work {
            bytes: views.iter().map(View::bytes).sum(),
            flops: flops.fold(0, u64::saturating_add),
        };
        Self {
            kind: (CHAIN_NAME, work),
            views,
            body: chain.on_cpu(),
            fusable: None,
        }
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
        if self.threads.current_thread_index().is_some() || cpu::is_alone() {
            let reason = "called from the CPU body of a launch on the same device";
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
        match &self.lock("alloc")?.recording {
            Some(recording) => recording.plan.allocate(len),
            None => self.pool.allocate(len),
        }
    }

    /// Runs a launch, or adds it to the graph being recorded. The caller has checked it.
    pub fn launch(
        &self,
        launch: &Launch<'_>,
        work: Work,
        body: CpuBody,
        fusable: Option<Arc<dyn Fusable>>,
    ) -> Result<(), CoreError> {
        let kind = (launch.name, work);
        self.run_or_record(kind, launch.bindings, body, fusable)
    }

    pub fn fill(&self, buffer: &Buffer, word: u32) -> Result<(), CoreError> {
        let bindings = [Binding::Write(buffer)];
        let body = move |bindings: &mut CpuBindings<'_>| {
            let ([], [out]) = bindings.split();
            out.fill(f32::from_bits(word));
        };
        let kind = ("fill", Work::of(&bindings));
        self.run_or_record(kind, &bindings, Box::new(body), None)
    }

    pub fn copy(&self, source: &Buffer, target: &Buffer) -> Result<(), CoreError> {
        let bindings = [Binding::Read(source), Binding::Write(target)];
        let body = |bindings: &mut CpuBindings<'_>| {
            let ([source], [target]) = bindings.split();
            target.copy_from_slice(source);
        };
        let kind = ("copy", Work::of(&bindings));
        self.run_or_record(kind, &bindings, Box::new(body), None)
    }

    fn run_or_record(
        &self,
        kind: (&'static str, Work),
        bindings: &[Binding<'_>],
        body: CpuBody,
        fusable: Option<Arc<dyn Fusable>>,
    ) -> Result<(), CoreError> {
        let mut state = self.lock(kind.0)?;
        let views: Vec<View> = bindings.iter().map(View::of).collect();
        match &mut state.recording {
            Some(recording) => {
                let launch = Recorded {
                    kind,
                    views,
                    body,
                    fusable,
                };
                recording.add(launch, bindings);
            }
            None => {
                let ready = CpuLaunch::new(kind.0, kind.1, &views, body)?;
                self.run(&Arc::from([ready]), state.timing);
            }
        }
        Ok(())
    }

    /// Runs launches in order on the workers, or a small one on this thread; the caller holds the lock.
    ///
    /// A thread of another rayon pool must not wait by `install`: rayon would let it take up
    /// another job of its own pool meanwhile, and if that one launches on this device, it waits
    /// for the lock that its own thread holds.
    fn run(&self, launches: &Arc<[CpuLaunch]>, timing: bool) {
        let timings = timing.then(|| Arc::clone(&self.timings));
        if let [launch] = &**launches
            && is_small(launch.work)
        {
            return cpu::alone(|| run_in_order(launches, timings.as_deref()));
        }
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
    pub fn begin_recording(&self, options: RecordingOptions) -> Result<(), CoreError> {
        let mut state = self.lock_unrecorded("record")?;
        state.recording = Some(Recording {
            thread: RecordingThread::current(),
            options,
            plan: MemoryPlan::new(Arc::clone(&self.source)),
            launches: Vec::new(),
            inputs: HashMap::new(),
        });
        Ok(())
    }

    /// Ends the graph; its buffers get their places. It is cut where the watched windows are final.
    pub fn end_recording(&self, watched: &[Buffer]) -> Result<CpuGraph, CoreError> {
        let recording = self.state().recording.take();
        let recording = recording.ok_or_else(RecordingThread::none_recording)?;
        recording.finish(&self.pool, watched)
    }

    /// Ends the recording without a graph, and returns the memory that it would hold.
    pub fn measure_recording(&self) -> Result<MemoryStatistics, CoreError> {
        let recording = self.state().recording.take();
        let recording = recording.ok_or_else(RecordingThread::none_recording)?;
        Ok(recording.measure())
    }

    pub fn abandon_recording(&self) {
        self.state().recording = None;
    }

    pub fn is_recording(&self) -> bool {
        self.state().recording.is_some()
    }

    /// Runs some of a graph's parts.
    pub fn replay(&self, graph: &CpuGraph, parts: Range<usize>) -> Result<(), CoreError> {
        let state = self.lock_unrecorded("replay")?;
        for part in &graph.parts[parts.start..parts.end.min(graph.parts.len())] {
            self.run(part, state.timing);
        }
        Ok(())
    }

    pub fn set_timing(&self, on: bool) {
        self.state().timing = on;
    }
}

/// Whether a launch takes less time than waking the workers, which takes about 12 us on two cores.
fn is_small(work: Work) -> bool {
    work.bytes <= 32 << 10 && work.flops <= 1 << 18
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
