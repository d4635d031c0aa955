//! A device: one opened device, its memory, and its stream of work.

mod allocate;
mod flags;
mod host;
mod launch;
mod no_memory;
mod pending;
mod record;
mod remembering;
mod sharing;
mod transfer;

use std::any::Any;
use std::fmt;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex};

pub use host::{HostBuffer, PendingCopy};
pub use pending::PendingDownload;
pub use record::OpenRecording;
pub use sharing::SharedBuffer;

use crate::arithmetic::{Arithmetic, Half, HalfMatrices, IntegerPath, MatrixShape};
use crate::autocast::Autocast;
use crate::device_info::DeviceInfo;
use crate::error::CoreError;
use crate::extensions::Extensions;
use crate::memory::{BlockSource, MemoryStatistics, NotedChange, TensorPool};
use crate::probe_report::{ProbeCheck, ProbeReport};
use crate::saved_format::SavedFormat;
use crate::stream::{Stream, on_stream};
use crate::timing::{TimingCollector, TimingReport};
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
    /// Belongs to this handle: within [`Autocast`] its arithmetic holds too.
    is_fixed: bool,
    /// Belongs to this handle, as the arithmetic does.
    saved_format: SavedFormat,
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
            is_fixed: false,
            saved_format: SavedFormat::F32,
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

    /// What this handle's products are computed in, except within [`Autocast`].
    pub fn arithmetic(&self) -> Arithmetic {
        self.arithmetic
    }

    /// What this handle's products are computed in on this thread: that of [`Autocast`], if it is on for such devices, else
    /// [`Device::arithmetic`].
    pub fn product_arithmetic(&self) -> Arithmetic {
        if self.is_fixed {
            return self.arithmetic;
        }
        let here = Autocast::here();
        let half = match self.is_cpu() {
            true => here.cpu,
            false => here.vulkan,
        };
        half.map_or(self.arithmetic, Arithmetic::Fast)
    }

    /// Returns a handle as [`Device::with_arithmetic`], whose products are computed in `arithmetic` within [`Autocast`] too.
    #[must_use]
    pub fn with_fixed_arithmetic(&self, arithmetic: Arithmetic) -> Self {
        Self {
            is_fixed: true,
            ..self.with_arithmetic(arithmetic)
        }
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

    /// In what a tape on this handle saves activations for the backward pass.
    pub fn saved_format(&self) -> SavedFormat {
        self.saved_format
    }

    /// Returns a handle of the same device, memory and stream that saves activations in `saved_format`.
    #[must_use]
    pub fn with_saved_format(&self, saved_format: SavedFormat) -> Self {
        Self {
            saved_format,
            ..self.clone()
        }
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
