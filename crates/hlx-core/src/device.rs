//! A device: one opened device, its memory, and its stream of work.

mod flags;
mod host;
mod no_memory;
mod pending;
mod remembering;
mod sharing;
mod transfer;

use std::any::Any;
use std::fmt;
use std::ops::Range;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

pub use host::{HostBuffer, PendingCopy};
pub use pending::PendingDownload;
pub use sharing::SharedBuffer;

use crate::arithmetic::{Arithmetic, Half, HalfMatrices, IntegerPath, MatrixShape};
use crate::device_info::DeviceInfo;
use crate::dtype::DType;
use crate::error::CoreError;
use crate::extensions::Extensions;
use crate::fusion::Fusable;
use crate::graph::{Graph, Launches};
use crate::launch::{CpuBindings, CpuBody, Launch, check_bindings};
use crate::memory::{BlockSource, Buffer, MemoryStatistics, NotedChange, TensorPool};
use crate::probe_report::{ProbeCheck, ProbeReport};
use crate::recording::RecordingOptions;
use crate::sizes;
use crate::stream::{Stream, on_stream};
use crate::timing::{TimingCollector, TimingReport, Work};
use crate::tuning::Tuning;
use crate::vulkan::Pace;

/// One opened device with its memory and its stream. Clones share it; work runs in the order it
/// is launched, whichever clone launches it. Buffers belong to the device that made them: no
/// other one takes them, also not a second opening of the same one.
#[derive(Clone)]
pub struct Device {
    inner: Arc<Inner>,
    /// Belongs to this handle: two handles of one device may be tuned differently.
    tuning: Arc<Tuning>,
    /// Belongs to this handle: what crates above have for it.
    extensions: Arc<Extensions>,
    /// Belongs to this handle, as the tuning does; it is a part of what its results mean.
    arithmetic: Arithmetic,
}

/// What a device shares among its clones. Graphs share the stream, which waits for its work before it goes; work under way
/// holds the memory that it uses.
struct Inner {
    stream: Arc<Stream>,
    source: Arc<BlockSource>,
    info: DeviceInfo,
    probe: ProbeReport,
    integer_paths: Vec<IntegerPath>,
    halves: HalfMatrices,
    flags: flags::Flags,
    /// The changes in place of the graph that is being recorded.
    changes: Mutex<Vec<NotedChange>>,
    remembering: remembering::Remembering,
    /// Whether nothing is allocated or run outside of recordings.
    has_no_memory: AtomicBool,
}

impl Device {
    pub(crate) fn from_parts(stream: Stream, source: Arc<BlockSource>, info: DeviceInfo) -> Self {
        let probe = ProbeReport::default();
        Self {
            tuning: Arc::new(Tuning::of(&info, true)),
            extensions: Arc::default(),
            arithmetic: Arithmetic::Portable,
            inner: Arc::new(Inner {
                stream: Arc::new(stream),
                source,
                info,
                probe,
                integer_paths: vec![IntegerPath::Plain],
                halves: HalfMatrices::default(),
                flags: flags::Flags::default(),
                changes: Mutex::default(),
                remembering: Default::default(),
                has_no_memory: AtomicBool::new(false),
            }),
        }
    }

    /// Takes what the probe found, and the tuning that follows from it; the device has no clone
    /// yet.
    pub(crate) fn with_probe(
        mut self,
        report: ProbeReport,
        integer_paths: Vec<IntegerPath>,
        halves: HalfMatrices,
        tuning: Tuning,
    ) -> Self {
        if let Some(inner) = Arc::get_mut(&mut self.inner) {
            inner.probe = report;
            inner.integer_paths = integer_paths;
            inner.halves = halves;
        }
        self.tuning = Arc::new(tuning);
        self
    }

    /// Whether this is the CPU device.
    pub fn is_cpu(&self) -> bool {
        matches!(*self.inner.stream, Stream::Cpu(_))
    }

    /// Whether both are handles of one device, so that one takes the other's buffers.
    pub fn is_same(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.inner, &other.inner)
    }

    /// The device and the number of its opening in this process, for errors: `NVIDIA H200
    /// [vulkan:0], opening 2`.
    pub fn label(&self) -> &str {
        self.inner.source.owner()
    }

    /// The device's description and limits.
    pub fn info(&self) -> &DeviceInfo {
        &self.inner.info
    }

    /// How fast this device is about, and how its work is submitted; it changes no bit.
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
            tuning: Arc::new(tuning),
            ..self.clone()
        })
    }

    /// Returns the value of this type that a crate above has for this handle, such as how its kernels are cut; makes
    /// it if there is none. What is made belongs to every handle without a value of its own, so it must not depend on
    /// the handle's tuning or arithmetic.
    pub fn extension<T: Any + Send + Sync>(&self, make: impl Fn() -> T) -> &T {
        self.extensions.get(make)
    }

    /// Returns a handle of the same device, memory and stream that has this value.
    #[must_use]
    pub fn with_extension<T: Any + Send + Sync>(&self, value: T) -> Self {
        Self {
            extensions: Arc::new(self.extensions.with(value)),
            ..self.clone()
        }
    }

    /// What this handle's products are computed in.
    pub fn arithmetic(&self) -> Arithmetic {
        self.arithmetic
    }

    /// Returns a handle of the same device, memory and stream whose products are computed in `arithmetic`.
    #[must_use]
    pub fn with_arithmetic(&self, arithmetic: Arithmetic) -> Self {
        Self {
            arithmetic,
            ..self.clone()
        }
    }

    /// Returns a handle as [`Device::with_arithmetic`], if the device computes in `arithmetic`.
    ///
    /// # Errors
    /// As [`Device::check_arithmetic`].
    pub fn in_arithmetic(&self, arithmetic: Arithmetic) -> Result<Self, CoreError> {
        self.check_arithmetic(arithmetic)?;
        Ok(self.with_arithmetic(arithmetic))
    }

    /// Checks that the device computes in `arithmetic`: every one does in `portable` and `integer`, and in `fast` the CPU
    /// device and those with cooperative matrices of the type ([`Device::half_matrices`]).
    ///
    /// # Errors
    /// [`CoreError::Invalid`], which says what the device lacks and what it has.
    pub fn check_arithmetic(&self, arithmetic: Arithmetic) -> Result<(), CoreError> {
        let Some(half) = arithmetic.half() else {
            return Ok(());
        };
        if self.is_cpu() || self.half_matrices(half).is_some() {
            return Ok(());
        }
        let (name, dtype) = (arithmetic.name(), half.dtype().name());
        let wrong =
            |check: &&ProbeCheck| check.name == half.check() && !check.finding.ends_with("equal");
        let why = match self.probe().checks.iter().find(wrong) {
            Some(check) => format!("its matrices of {dtype} fail the probe ({})", check.finding),
            None => format!("its driver lists no cooperative matrices of {dtype} with sums of f32"),
        };
        let others = Half::ALL
            .into_iter()
            .filter(|&other| self.half_matrices(other).is_some());
        let others = others.map(|half| Arithmetic::Fast(half).name());
        let others: Vec<_> = others.chain(["integer", "portable"]).collect();
        let reason = format!(
            "`{name}` is not for {}: {why}; it has {}",
            self.info(),
            others.join(", ")
        );
        Err(CoreError::invalid("arithmetic", reason))
    }

    /// The cooperative matrices of 16-bit floats with sums of f32 by which the device computes in `fast`: those that the
    /// probe has found right and repeating their bits. The CPU device has none, and computes with chains of f32.
    pub fn half_matrices(&self, half: Half) -> Option<MatrixShape> {
        self.inner.halves.of(half)
    }

    /// The ways in which the device sums products of integers, all with the same bits, the fastest first.
    pub fn integer_paths(&self) -> &[IntegerPath] {
        &self.inner.integer_paths
    }

    /// What the start-up probe found.
    pub fn probe(&self) -> &ProbeReport {
        &self.inner.probe
    }

    /// Whether the device fuses and flushes by itself; otherwise its kernels emulate HLX's
    /// arithmetic and are bound by it.
    pub fn native_arithmetic(&self) -> bool {
        match self.stream() {
            Stream::Cpu(_) => true,
            Stream::Vulkan(stream) => stream.device().native_arithmetic(),
        }
    }

    /// The most words that one binding of a launch may cover.
    pub fn max_binding_words(&self) -> usize {
        usize::try_from(self.inner.info.max_binding_words).unwrap_or(usize::MAX)
    }

    /// The threads of the CPU device; 0 on a Vulkan device.
    pub fn cpu_threads(&self) -> usize {
        match self.stream() {
            Stream::Cpu(stream) => stream.threads(),
            Stream::Vulkan(_) => 0,
        }
    }

    pub(crate) fn stream(&self) -> &Stream {
        &self.inner.stream
    }

    pub(crate) fn source(&self) -> &Arc<BlockSource> {
        &self.inner.source
    }

    fn flags(&self) -> &flags::Flags {
        &self.inner.flags
    }

    fn pool(&self) -> &Arc<TensorPool> {
        on_stream!(self, stream => stream.pool())
    }

    /// How work on a Vulkan device is cut into submissions.
    fn pace(&self) -> Pace {
        Pace::of(&self.tuning)
    }

    fn timings(&self) -> &TimingCollector {
        on_stream!(self, stream => stream.timings())
    }

    /// Bytes in use and held by the device's pool; graphs hold their own besides.
    pub fn memory(&self) -> MemoryStatistics {
        self.pool().statistics()
    }

    /// Bytes held on the device by the device and all its graphs.
    pub fn held_bytes(&self) -> u64 {
        self.inner.source.held_bytes()
    }

    /// Bytes that may be held on the device, those held now among them: what the driver grants at the moment, or the
    /// machine.
    pub fn budget_bytes(&self) -> u64 {
        self.inner.source.budget_bytes()
    }

    /// Returns memory with no buffer in it to the driver.
    pub fn trim_memory(&self) {
        self.pool().trim();
    }

    /// Allocates `len` f32 elements in device memory, uninitialised.
    ///
    /// # Errors
    /// [`CoreError::OutOfMemory`], which names what was requested and what is in use;
    /// [`CoreError::Invalid`] while another thread records a graph.
    pub fn alloc(&self, len: usize) -> Result<Buffer, CoreError> {
        if self.leaves_out() {
            return self.without_memory(len);
        }
        on_stream!(self, stream => stream.alloc(len))
    }

    /// Allocates `len` elements of a type in device memory, uninitialised.
    ///
    /// # Errors
    /// As [`Device::alloc`].
    pub fn alloc_typed(&self, dtype: DType, len: usize) -> Result<Buffer, CoreError> {
        self.alloc(dtype.words(len))?.view_as(dtype, len)
    }

    /// Allocates f32 elements in device memory, uninitialised, as many as a shape of these extents has: for extents
    /// whose product nobody has checked.
    ///
    /// # Errors
    /// As [`Device::alloc`]; [`CoreError::Invalid`] for a shape that no memory holds.
    pub fn alloc_shape(&self, extents: &[usize]) -> Result<Buffer, CoreError> {
        self.alloc(sizes::elements("alloc", extents)?)
    }

    /// As [`Device::alloc_shape`], of elements of a type.
    ///
    /// # Errors
    /// As [`Device::alloc_shape`].
    pub fn alloc_shape_typed(&self, dtype: DType, extents: &[usize]) -> Result<Buffer, CoreError> {
        self.alloc_typed(dtype, sizes::elements("alloc", extents)?)
    }

    /// Refuses more bytes than the device's memory may have: for sizes that a file tells, before the file is read. Success
    /// reserves nothing.
    ///
    /// # Errors
    /// [`CoreError::OutOfMemory`].
    pub fn check_memory(&self, bytes: usize) -> Result<(), CoreError> {
        self.inner.source.check_budget(bytes.div_ceil(4))
    }

    /// Allocates `len` words in an allocation of their own, uninitialised: on a Vulkan device a
    /// buffer of exactly this size, which no other tensor shares. So a kernel from outside that
    /// computes a wrong index reaches no other tensor, even where the driver bounds accesses by
    /// the Vulkan buffer and not by the bound window (`robustBufferAccess`). Costs a driver
    /// allocation each; tensors of HLX's own kernels come from [`Device::alloc`].
    ///
    /// # Errors
    /// [`CoreError::OutOfMemory`], which names what was requested and what is in use.
    pub fn alloc_isolated(&self, len: usize) -> Result<Buffer, CoreError> {
        if self.leaves_out() {
            return self.without_memory(len);
        }
        let block = self.inner.source.allocate(len.max(1))?;
        Ok(Buffer::isolated(block, len))
    }

    /// Allocates `len` words in the host's memory, uninitialised, as a buffer of this device: kernels read and write it over
    /// the bus, and every other call takes it as it takes device memory. On the CPU device, and where the device's memory
    /// is the host's, it is memory as any other.
    ///
    /// # Errors
    /// [`CoreError::OutOfMemory`], which names what was requested and what is in use.
    pub fn alloc_in_host(&self, len: usize) -> Result<Buffer, CoreError> {
        if self.leaves_out() {
            let block = self.source().without_memory(len.max(1), !self.is_cpu());
            return Ok(Buffer::isolated(block, len));
        }
        let block = self.inner.source.allocate_in_host(len.max(1))?;
        Ok(Buffer::isolated(block, len))
    }

    /// The bytes of [`Device::alloc_in_host`] that are alive; 0 on the CPU device, which counts them as its own.
    pub fn host_bytes(&self) -> u64 {
        self.inner.source.host_bytes()
    }

    /// Launches a kernel: the shader on a Vulkan device, `cpu` on the CPU device. While a graph
    /// is being recorded, the launch is recorded instead of run. Any thread may launch; `cpu` itself
    /// must not launch on this device.
    ///
    /// # Errors
    /// [`CoreError::OtherDevice`] for a buffer of another device; [`CoreError::Invalid`] for
    /// bindings that overlap, are misaligned or larger than the device binds, and while another
    /// thread records a graph; the driver's error.
    pub fn launch<F>(&self, launch: Launch<'_>, cpu: F) -> Result<(), CoreError>
    where
        F: Fn(&mut CpuBindings<'_>) + Send + Sync + 'static,
    {
        self.launch_counted(launch, launch.work(), cpu)
    }

    /// As [`Device::launch`], with what timing reports are to count for it: the operations, and the
    /// bytes where they are not those of the bound windows.
    /// `device.launch_counted(launch, Work { flops, ..launch.work() }, ..)`.
    ///
    /// # Errors
    /// As [`Device::launch`].
    pub fn launch_counted<F>(&self, launch: Launch<'_>, work: Work, cpu: F) -> Result<(), CoreError>
    where
        F: Fn(&mut CpuBindings<'_>) + Send + Sync + 'static,
    {
        let mut cpu = Some(cpu);
        self.launch_any(&launch, work, None, &mut || boxed(&mut cpu))
    }

    /// As [`Device::launch`], for a launch that becomes part of a chain where a graph is recorded
    /// and [`Tuning::chains`] is on. `fusable` is called only then.
    ///
    /// # Errors
    /// As [`Device::launch`].
    pub fn launch_fusable<F>(
        &self,
        launch: Launch<'_>,
        fusable: impl FnOnce() -> Option<Arc<dyn Fusable>>,
        cpu: F,
    ) -> Result<(), CoreError>
    where
        F: Fn(&mut CpuBindings<'_>) + Send + Sync + 'static,
    {
        let joins = self.tuning.chains && self.is_recording();
        let fusable = joins.then(fusable).flatten();
        let (work, mut cpu) = (launch.work(), Some(cpu));
        self.launch_any(&launch, work, fusable, &mut || boxed(&mut cpu))
    }

    /// One body for all kernels: `cpu` is called on the CPU device, once.
    fn launch_any(
        &self,
        launch: &Launch<'_>,
        work: Work,
        fusable: Option<Arc<dyn Fusable>>,
        cpu: &mut dyn FnMut() -> Option<CpuBody>,
    ) -> Result<(), CoreError> {
        check_bindings(launch.name, launch.bindings, self.source())?;
        if self.leaves_out() {
            return Ok(());
        }
        match self.stream() {
            Stream::Vulkan(stream) => stream.launch(launch, work, self.pace(), fusable),
            Stream::Cpu(stream) => match cpu() {
                Some(cpu) => stream.launch(launch, work, cpu, fusable),
                None => Ok(()),
            },
        }
    }

    /// The number of submissions to the device so far; 0 on the CPU device. Work that takes long by
    /// estimate is cut into several ([`Tuning::submission_ms`]).
    pub fn submissions(&self) -> u64 {
        match self.stream() {
            Stream::Vulkan(stream) => stream.submissions(),
            Stream::Cpu(_) => 0,
        }
    }

    /// Waits until all work launched so far is done.
    ///
    /// # Errors
    /// [`CoreError::DeviceLost`]; [`CoreError::Fault`] if a kernel has found one.
    pub fn sync(&self) -> Result<(), CoreError> {
        match self.stream() {
            Stream::Vulkan(stream) => stream.sync()?,
            Stream::Cpu(_) => {}
        }
        self.check_flags()
    }

    /// Runs `body` with its launches recorded instead of run, and returns them as a graph beside
    /// the body's result. Buffers allocated inside get their memory at the end: one whose handle is
    /// still held retains its own, also after the graph is dropped; the others share what all graphs
    /// work in. On a Vulkan device launches that do not depend on each other run side by side.
    /// Chains of element-wise launches become one launch each ([`Tuning::chains`]), and what only
    /// they read is not stored. Launches are left out whose results nobody reads: buffers of the graph
    /// without a handle at the end, which no later launch reads that is needed itself
    /// ([`Tuning::skips_unread`]). The graph owns the buffers from outside that its launches use. Uploads, downloads
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

    /// Turns the measurement of each launch's time on or off. Launches then run one after the
    /// other, and a graph must be recorded while it is on to be measured.
    pub fn set_timing(&self, on: bool) {
        on_stream!(self, stream => stream.set_timing(on));
    }

    /// Waits for all work, and returns and clears the times measured so far.
    ///
    /// # Errors
    /// As [`Device::sync`].
    pub fn take_timing(&self) -> Result<TimingReport, CoreError> {
        self.sync()?;
        Ok(self.timings().take())
    }
}

impl fmt::Debug for Device {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Device({})", self.inner.info)
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

/// The body of a launch, taken out of its place.
fn boxed<F>(cpu: &mut Option<F>) -> Option<CpuBody>
where
    F: Fn(&mut CpuBindings<'_>) + Send + Sync + 'static,
{
    cpu.take().map(|cpu| Box::new(cpu) as CpuBody)
}
