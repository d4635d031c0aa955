//! A context: one opened device, its memory, and its stream of work.

mod pending;
mod transfer;

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use rayon::ThreadPool;

pub use pending::PendingDownload;

use crate::device::{DeviceInfo, DeviceKind, Selector, cpu_info};
use crate::error::CoreError;
use crate::graph::Graph;
use crate::launch::{CpuBindings, CpuLaunch, Launch};
use crate::memory::{BlockSource, Buffer, MemoryPlan, MemoryStatistics, TensorPool};
use crate::probe::{self, ProbeReport};
use crate::profile::{ProfileReport, Profiler, Work};
use crate::tuning::Tuning;
use crate::vulkan::{self, VulkanDevice, VulkanStream};

/// One opened device with its memory and its stream. Clones share it; work runs in the order it
/// is launched, whichever clone launches it.
#[derive(Clone)]
pub struct Context {
    inner: Arc<Inner>,
    /// Of this handle: two handles of one device may be tuned differently.
    tuning: Arc<Tuning>,
}

/// What a context shares among its clones. Fields drop in order: the stream waits for its work
/// before the memory goes.
struct Inner {
    backend: Backend,
    stream: Mutex<StreamState>,
    pool: Arc<TensorPool>,
    source: Arc<BlockSource>,
    info: DeviceInfo,
    probe: ProbeReport,
    profiler: Arc<Profiler>,
}

pub(crate) enum Backend {
    Cpu(ThreadPool),
    Vulkan(Box<VulkanStream>),
}

#[derive(Default)]
struct StreamState {
    recording: Option<Recording>,
    profiling: bool,
}

/// A graph being recorded: where its buffers come from, and on the CPU its launches.
struct Recording {
    memory: RecordingMemory,
    cpu: Vec<CpuLaunch>,
}

/// On the CPU a graph has a pool of its own; a Vulkan graph's buffers get their places when it
/// is known which launches run side by side.
#[derive(Clone)]
enum RecordingMemory {
    Pool(Arc<TensorPool>),
    Plan(Arc<MemoryPlan>),
}

impl Context {
    /// Opens the device that `selector` names: `auto`, `cpu`, `vulkan` or `vulkan:N`.
    ///
    /// `auto` takes the first hardware GPU that passes the probe, else the CPU device: a
    /// software Vulkan driver is slower than that. `vulkan` takes the first GPU, else a software
    /// driver.
    ///
    /// # Errors
    /// [`CoreError::UnknownDevice`], [`CoreError::NoSuchDevice`], [`CoreError::ProbeFailed`], or
    /// what the driver answers.
    pub fn open(selector: &str) -> Result<Self, CoreError> {
        let selected = Selector::parse(selector)?;
        if selected == Selector::Cpu {
            return Self::cpu();
        }
        if selected == Selector::Auto {
            return Self::open_auto();
        }
        let devices = vulkan::list().map_err(|error| no_such_device(selector, Some(&error)))?;
        let first_gpu = devices
            .iter()
            .position(|info| info.kind == DeviceKind::VulkanGpu);
        let index = match selected {
            Selector::VulkanIndex(index) => index,
            _ => first_gpu.unwrap_or(0),
        };
        if index >= devices.len() {
            return Err(no_such_device(selector, None));
        }
        Self::vulkan(index)
    }

    /// Opens the device named by the environment variable `HLX_DEVICE`, else by `selector`.
    ///
    /// # Errors
    /// As [`Context::open`].
    pub fn open_from_env(selector: &str) -> Result<Self, CoreError> {
        match std::env::var("HLX_DEVICE") {
            Ok(text) if !text.is_empty() => Self::open(&text),
            _ => Self::open(selector),
        }
    }

    fn open_auto() -> Result<Self, CoreError> {
        for (index, info) in vulkan_devices().iter().enumerate() {
            if info.kind != DeviceKind::VulkanGpu {
                continue;
            }
            match Self::vulkan(index) {
                Ok(context) => return Ok(context),
                Err(error) => tracing::warn!("{info} is passed over: {error}"),
            }
        }
        Self::cpu()
    }

    /// Opens the CPU device.
    ///
    /// # Errors
    /// [`CoreError::ProbeFailed`] if the processor's arithmetic is not HLX's.
    pub fn cpu() -> Result<Self, CoreError> {
        let threads = crate::cpu::worker_pool(crate::cpu::thread_count())?;
        let info = cpu_info();
        let probe = threads.install(probe::run_cpu);
        probe.check(&info.name)?;
        let source = Arc::new(BlockSource::new(info.name.clone(), None));
        Ok(Self::from_parts(
            Backend::Cpu(threads),
            source,
            info,
            probe,
            Arc::default(),
        ))
    }

    /// Opens the Vulkan device of this index in [`Context::devices`]'s order.
    fn vulkan(index: usize) -> Result<Self, CoreError> {
        let profiler = Arc::new(Profiler::default());
        let device = VulkanDevice::open(index)?;
        let info = device.info.clone();
        let source = Arc::new(BlockSource::new(
            info.name.clone(),
            Some(Arc::clone(&device)),
        ));
        let stream = VulkanStream::new(Arc::clone(&device), Arc::clone(&profiler))?;
        let unproved = ProbeReport::default();
        let mut context = Self::from_parts(
            Backend::Vulkan(Box::new(stream)),
            source,
            info,
            unproved,
            profiler,
        );
        let report = probe::run_vulkan(&context, &device)?;
        report.check(&context.inner.info.name)?;
        if let Some(inner) = Arc::get_mut(&mut context.inner) {
            inner.probe = report;
        }
        context.tuning = Arc::new(Tuning::of(context.info(), context.native_arithmetic()));
        Ok(context)
    }

    fn from_parts(
        backend: Backend,
        source: Arc<BlockSource>,
        info: DeviceInfo,
        probe: ProbeReport,
        profiler: Arc<Profiler>,
    ) -> Self {
        let pool = TensorPool::new(Arc::clone(&source));
        let stream = Mutex::new(StreamState::default());
        let tuning = Arc::new(Tuning::of(&info, true));
        Self {
            tuning,
            inner: Arc::new(Inner {
                backend,
                stream,
                pool,
                source,
                info,
                probe,
                profiler,
            }),
        }
    }

    /// Lists the devices of this machine: the CPU device, then every Vulkan device.
    pub fn devices() -> Vec<DeviceInfo> {
        std::iter::once(cpu_info())
            .chain(vulkan_devices())
            .collect()
    }

    /// Opens the CPU device and every Vulkan device that passes the probe.
    ///
    /// # Errors
    /// As [`Context::open`]: a device that is there and cannot be opened is an error.
    pub fn all() -> Result<Vec<Self>, CoreError> {
        let mut contexts = vec![Self::cpu()?];
        for index in 0..vulkan_devices().len() {
            contexts.push(Self::vulkan(index)?);
        }
        Ok(contexts)
    }

    /// Whether this is the CPU device.
    pub fn is_cpu(&self) -> bool {
        matches!(self.inner.backend, Backend::Cpu(_))
    }

    /// The device's description and limits.
    pub fn info(&self) -> &DeviceInfo {
        &self.inner.info
    }

    /// How kernels are cut for this device; it never shows in the bits.
    pub fn tuning(&self) -> &Tuning {
        &self.tuning
    }

    /// Returns a handle of the same device, memory and stream with another tuning.
    ///
    /// # Errors
    /// As [`Tuning::check`].
    pub fn with_tuning(&self, tuning: Tuning) -> Result<Self, CoreError> {
        tuning.check()?;
        Ok(Self {
            inner: Arc::clone(&self.inner),
            tuning: Arc::new(tuning),
        })
    }

    /// What the start-up probe found.
    pub fn probe(&self) -> &ProbeReport {
        &self.inner.probe
    }

    /// Whether the device fuses and flushes by itself; otherwise its kernels emulate HLX's
    /// arithmetic and are bound by it.
    pub fn native_arithmetic(&self) -> bool {
        match &self.inner.backend {
            Backend::Cpu(_) => true,
            Backend::Vulkan(stream) => stream
                .device()
                .modes
                .get()
                .is_some_and(|modes| modes.native_fma != 0 && modes.native_flush != 0),
        }
    }

    /// The most words that one binding of a launch may cover.
    pub fn max_binding_words(&self) -> usize {
        usize::try_from(self.inner.info.max_binding_words).unwrap_or(usize::MAX)
    }

    /// The threads of the CPU device; 0 on a Vulkan device.
    pub fn cpu_threads(&self) -> usize {
        match &self.inner.backend {
            Backend::Cpu(threads) => threads.current_num_threads(),
            Backend::Vulkan(_) => 0,
        }
    }

    pub(crate) fn backend(&self) -> &Backend {
        &self.inner.backend
    }

    fn stream(&self) -> MutexGuard<'_, StreamState> {
        self.inner
            .stream
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    /// Bytes in use and held by the context's pool; graphs hold their own besides.
    pub fn memory(&self) -> MemoryStatistics {
        self.inner.pool.statistics()
    }

    /// Bytes held on the device by the context and all its graphs.
    pub fn held_bytes(&self) -> u64 {
        self.inner.source.held_bytes()
    }

    /// Gives memory with no buffer in it back to the driver.
    pub fn trim_memory(&self) {
        self.inner.pool.trim();
    }

    /// Takes `len` words of device memory, uninitialised.
    ///
    /// # Errors
    /// [`CoreError::OutOfMemory`], which names what was asked and what is in use.
    pub fn alloc(&self, len: usize) -> Result<Buffer, CoreError> {
        let recording = self.stream().recording.as_ref().map(|r| r.memory.clone());
        match recording {
            None => self.inner.pool.allocate(len),
            Some(RecordingMemory::Pool(pool)) => pool.allocate(len),
            Some(RecordingMemory::Plan(plan)) => Ok(plan.allocate(len)),
        }
    }

    /// Launches a kernel: the shader on a Vulkan device, `cpu` on the CPU device. While a graph
    /// is being recorded, the launch is kept instead of run.
    ///
    /// # Errors
    /// [`CoreError::Invalid`] for bindings that overlap, are misaligned or larger than the device
    /// binds; what the driver answers.
    pub fn launch<F>(&self, launch: Launch<'_>, cpu: F) -> Result<(), CoreError>
    where
        F: Fn(&mut CpuBindings<'_>) + Send + Sync + 'static,
    {
        self.launch_counted(launch, launch.work(), cpu)
    }

    /// As [`Context::launch`], with what profiles are to count for it: the operations, and the
    /// bytes where they are not those of the bound windows.
    /// `ctx.launch_counted(launch, Work { flops, ..launch.work() }, ..)`.
    ///
    /// # Errors
    /// As [`Context::launch`].
    pub fn launch_counted<F>(&self, launch: Launch<'_>, work: Work, cpu: F) -> Result<(), CoreError>
    where
        F: Fn(&mut CpuBindings<'_>) + Send + Sync + 'static,
    {
        launch.check()?;
        let mut state = self.stream();
        match &self.inner.backend {
            Backend::Vulkan(stream) => stream.dispatch(&launch, work),
            Backend::Cpu(threads) => {
                let ready = CpuLaunch::new((launch.name, work), launch.bindings, Box::new(cpu))?;
                match &mut state.recording {
                    Some(recording) => recording.cpu.push(ready),
                    None => self.run_cpu(threads, std::slice::from_ref(&ready), state.profiling),
                }
                Ok(())
            }
        }
    }

    /// Runs launches in order on the workers; the caller holds the stream.
    fn run_cpu(&self, threads: &ThreadPool, launches: &[CpuLaunch], profiling: bool) {
        let profiler = &self.inner.profiler;
        threads.install(|| {
            for launch in launches {
                let start = profiling.then(Instant::now);
                launch.run();
                if let Some(start) = start {
                    let began_ns = start.duration_since(profiler.origin).as_secs_f64() * 1e9;
                    let duration_ns = start.elapsed().as_secs_f64() * 1e9;
                    profiler.add(launch.name, launch.work, began_ns, duration_ns);
                }
            }
        });
    }

    /// Waits until all work launched so far is done.
    ///
    /// # Errors
    /// [`CoreError::DeviceLost`].
    pub fn sync(&self) -> Result<(), CoreError> {
        match &self.inner.backend {
            Backend::Vulkan(stream) => stream.sync(),
            Backend::Cpu(_) => Ok(()),
        }
    }

    /// Runs `body` with its launches recorded instead of run, and returns them as a graph beside
    /// the body's result. On a Vulkan device launches that do not depend on each other run side
    /// by side, and buffers allocated inside get their memory at the end: one whose handle is
    /// still held keeps its own, the others share what all graphs work in. Uploads and downloads
    /// inside are errors; other threads must not launch on this context meanwhile. Buffers
    /// from outside that the launches use must live as long as the graph is replayed: a dropped
    /// buffer's memory goes to others.
    ///
    /// # Errors
    /// What `body` returns; [`CoreError::Invalid`] if a graph is already being recorded.
    pub fn record<T, E: From<CoreError>>(
        &self,
        body: impl FnOnce() -> Result<T, E>,
    ) -> Result<(Graph, T), E> {
        let source = &self.inner.source;
        let (pool, plan) = (
            TensorPool::new(Arc::clone(source)),
            MemoryPlan::new(Arc::clone(source)),
        );
        {
            let mut state = self.stream();
            if state.recording.is_some() {
                return Err(
                    CoreError::invalid("record", "a graph is already being recorded").into(),
                );
            }
            let memory = match &self.inner.backend {
                Backend::Vulkan(stream) => {
                    stream.begin_recording()?;
                    RecordingMemory::Plan(Arc::clone(&plan))
                }
                Backend::Cpu(_) => RecordingMemory::Pool(Arc::clone(&pool)),
            };
            state.recording = Some(Recording {
                memory,
                cpu: Vec::new(),
            });
        }
        let guard = RecordingGuard(self);
        let result = body()?;
        let launches = {
            let mut state = self.stream();
            state
                .recording
                .take()
                .map(|recording| recording.cpu)
                .unwrap_or_default()
        };
        std::mem::forget(guard);
        let graph = match &self.inner.backend {
            Backend::Vulkan(stream) => {
                let (recorded, memory) = stream.end_recording(&plan, &self.inner.pool)?;
                Graph::vulkan(self.clone(), recorded, memory)
            }
            Backend::Cpu(_) => Graph::cpu(self.clone(), launches, pool),
        };
        Ok((graph, result))
    }

    /// Runs a CPU graph's launches.
    pub(crate) fn replay_cpu(&self, launches: &[CpuLaunch]) {
        let state = self.stream();
        if let Backend::Cpu(threads) = &self.inner.backend {
            self.run_cpu(threads, launches, state.profiling);
        }
    }

    /// Whether a graph is being recorded.
    pub fn is_recording(&self) -> bool {
        self.stream().recording.is_some()
    }

    /// Whether buffers are being given their memory by the launches that touch them, as while a
    /// graph is recorded on a Vulkan device: values are then gone after their last launch, however
    /// long their handle is held.
    pub fn plans_memory(&self) -> bool {
        !self.is_cpu() && self.is_recording()
    }

    /// Turns the measurement of each launch's time on or off. Launches then run one after the
    /// other, and a graph must be recorded while it is on to be measured.
    pub fn set_profiling(&self, on: bool) {
        self.stream().profiling = on;
        if let Backend::Vulkan(stream) = &self.inner.backend {
            stream.set_profiling(on);
        }
    }

    /// Waits for all work, and returns and clears the times measured so far.
    ///
    /// # Errors
    /// As [`Context::sync`].
    pub fn take_profile(&self) -> Result<ProfileReport, CoreError> {
        self.sync()?;
        Ok(self.inner.profiler.take())
    }
}

impl fmt::Debug for Context {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Context({})", self.inner.info)
    }
}

/// Abandons the recording when its body fails or panics.
struct RecordingGuard<'a>(&'a Context);

impl Drop for RecordingGuard<'_> {
    fn drop(&mut self) {
        self.0.stream().recording = None;
        if let Backend::Vulkan(stream) = &self.0.inner.backend {
            stream.abandon_recording();
        }
    }
}

/// The Vulkan devices; none, and a line in the log, where Vulkan itself does not answer.
fn vulkan_devices() -> Vec<DeviceInfo> {
    vulkan::list().unwrap_or_else(|error| {
        tracing::info!("no Vulkan: {error}");
        Vec::new()
    })
}

fn no_such_device(asked: &str, reason: Option<&CoreError>) -> CoreError {
    let names: Vec<String> = Context::devices().iter().map(ToString::to_string).collect();
    let why = reason
        .map(|error| format!(" ({error})"))
        .unwrap_or_default();
    CoreError::NoSuchDevice {
        asked: asked.to_owned(),
        available: format!("there is {}{why}", names.join(", ")),
    }
}
