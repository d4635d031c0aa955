//! The CPU device: its worker threads, their flush-to-zero mode and the vector level in use.
//!
//! HLX arithmetic counts subnormals as zero. x86 and AArch64 do so natively when a control bit
//! of the thread is set; the workers of the CPU device set it once, when they start, and run
//! no other work. [`with_flush`] sets and restores it for a closure on the calling thread. These
//! are the only two places of HLX that touch the mode; the probe proves that they work. The flag
//! that says that a result was flushed is read in [`crate::underflow`].

use std::cell::Cell;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};

use rayon::{ThreadPool, ThreadPoolBuilder};

use crate::environment;
use crate::error::CoreError;
use crate::machine;

/// The vector instructions that the CPU kernels use.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum SimdLevel {
    /// Whatever the target guarantees; multiply-adds in f64 ([`crate::arith::Exact`]).
    Portable,
    /// AArch64's vectors of four.
    Neon,
    /// AVX2 and FMA.
    Avx2,
    /// AVX-512 F, VL, BW and DQ.
    Avx512,
}

impl SimdLevel {
    /// The name that `HLX_SIMD` takes: `portable`, `neon`, `avx2`, `avx512`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Portable => "portable",
            Self::Neon => "neon",
            Self::Avx2 => "avx2",
            Self::Avx512 => "avx512",
        }
    }
}

/// The best level of this processor.
fn best_simd_level() -> SimdLevel {
    // Miri interprets no vector instructions.
    if cfg!(miri) {
        return SimdLevel::Portable;
    }
    if cfg!(target_arch = "aarch64") {
        return SimdLevel::Neon;
    }
    #[cfg(target_arch = "x86_64")]
    {
        let avx2 = is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma");
        let avx512 = is_x86_feature_detected!("avx512f")
            && is_x86_feature_detected!("avx512vl")
            && is_x86_feature_detected!("avx512bw")
            && is_x86_feature_detected!("avx512dq");
        if avx2 && avx512 {
            return SimdLevel::Avx512;
        }
        if avx2 {
            return SimdLevel::Avx2;
        }
    }
    SimdLevel::Portable
}

/// Returns the levels that this processor has, the plainest first.
pub fn simd_levels() -> Vec<SimdLevel> {
    let best = best_simd_level();
    let all = [
        SimdLevel::Portable,
        SimdLevel::Neon,
        SimdLevel::Avx2,
        SimdLevel::Avx512,
    ];
    let has = |level: &SimdLevel| {
        let neon = (*level == SimdLevel::Neon) == (best == SimdLevel::Neon);
        *level == SimdLevel::Portable || (*level <= best && neon)
    };
    all.into_iter().filter(has).collect()
}

/// Returns the level in use: the processor's best, or a lower one forced by the environment
/// variable `HLX_SIMD` (`portable`, `neon`, `avx2`, `avx512`). A level that the processor lacks, or an
/// unknown word, is ignored with a warning in the log. The bits are the same at every level.
pub fn simd_level() -> SimdLevel {
    static LEVEL: OnceLock<SimdLevel> = OnceLock::new();
    *LEVEL.get_or_init(|| {
        let best = best_simd_level();
        let Ok(word) = std::env::var("HLX_SIMD") else {
            return best;
        };
        let mut levels = simd_levels().into_iter();
        levels
            .find(|level| level.name() == word)
            .unwrap_or_else(|| {
                tracing::warn!("HLX_SIMD={word} is not usable here; using {}", best.name());
                best
            })
    })
}

/// The registers of this thread's floating-point unit: its mode and its cumulative flags. Miri,
/// which interprets no assembly, takes the last variant.
#[cfg(all(target_arch = "x86_64", not(miri)))]
mod registers {
    /// FTZ (bit 15) and DAZ (bit 6) of MXCSR.
    pub const FLUSH_BITS: u64 = (1 << 15) | (1 << 6);
    /// UE (bit 4) of MXCSR: a result was tiny.
    pub const UNDERFLOW_BIT: u64 = 1 << 4;

    pub fn control() -> u64 {
        let mut mxcsr = 0_u32;
        // SAFETY: stmxcsr writes four bytes to the address given, a live local.
        unsafe { std::arch::asm!("stmxcsr [{}]", in(reg) &mut mxcsr, options(nostack)) };
        u64::from(mxcsr)
    }

    pub fn set_control(value: u64) {
        let mxcsr = value as u32;
        // SAFETY: ldmxcsr reads four bytes from a live local. The value is one read by `control`,
        // with at most the FTZ, DAZ and UE bits changed: no exception is unmasked.
        unsafe { std::arch::asm!("ldmxcsr [{}]", in(reg) &mxcsr, options(nostack)) };
    }

    pub use {control as flags, set_control as set_flags};
}

#[cfg(all(target_arch = "aarch64", not(miri)))]
mod registers {
    /// FZ (bit 24) of FPCR: flushes inputs and outputs.
    pub const FLUSH_BITS: u64 = 1 << 24;
    /// UFC (bit 3) of FPSR: a result was tiny.
    pub const UNDERFLOW_BIT: u64 = 1 << 3;

    pub fn control() -> u64 {
        let value: u64;
        // SAFETY: reads a register that user space may read.
        unsafe { std::arch::asm!("mrs {}, fpcr", out(reg) value, options(nostack)) };
        value
    }

    pub fn set_control(value: u64) {
        // SAFETY: the value is one read by `control`, with at most the FZ bit changed.
        unsafe { std::arch::asm!("msr fpcr, {}", in(reg) value, options(nostack)) };
    }

    pub fn flags() -> u64 {
        let value: u64;
        // SAFETY: reads a register that user space may read.
        unsafe { std::arch::asm!("mrs {}, fpsr", out(reg) value, options(nostack)) };
        value
    }

    pub fn set_flags(value: u64) {
        // SAFETY: the value is one read by `flags`, with at most the UFC bit changed.
        unsafe { std::arch::asm!("msr fpsr, {}", in(reg) value, options(nostack)) };
    }
}

#[cfg(any(miri, not(any(target_arch = "x86_64", target_arch = "aarch64"))))]
mod registers {
    pub const FLUSH_BITS: u64 = 0;
    pub const UNDERFLOW_BIT: u64 = 0;

    pub fn control() -> u64 {
        0
    }

    pub fn set_control(_value: u64) {}

    pub use {control as flags, set_control as set_flags};
}

use registers::{FLUSH_BITS, UNDERFLOW_BIT, control, flags, set_control, set_flags};

/// Clears this thread's underflow flag and returns whether it was set.
pub(crate) fn take_underflow() -> bool {
    let flags = flags();
    let set = flags & UNDERFLOW_BIT != 0;
    if set {
        set_flags(flags & !UNDERFLOW_BIT);
    }
    set
}

/// Sets this thread's underflow flag.
pub(crate) fn raise_underflow() {
    set_flags(flags() | UNDERFLOW_BIT);
}

/// Restores the control register when it goes out of scope, also on a panic.
struct Restore(u64);

impl Drop for Restore {
    fn drop(&mut self) {
        set_control(self.0);
    }
}

/// Runs `body` on this thread with subnormals flushed to zero, and restores the mode after it.
///
/// For host-side use of [`crate::arith`] (learning rates, initial weights).
#[inline(never)]
pub fn with_flush<R>(body: impl FnOnce() -> R) -> R {
    let _restore = Restore(control());
    set_control(control() | FLUSH_BITS);
    // Opaque to the optimiser, so that no arithmetic of `body` moves across the switch.
    let body = std::hint::black_box(body);
    std::hint::black_box(body())
}

/// How many processes of one run compute on this machine's processor, if that was said.
static SHARERS: AtomicUsize = AtomicUsize::new(1);

/// Says that `n` processes of one run compute on this machine's processor: each takes its share of the
/// threads, unless `HLX_THREADS` says how many. Call it before a CPU device is opened.
pub fn share_threads(n: usize) {
    SHARERS.store(n.max(1), Ordering::Relaxed);
}

/// The number of worker threads: `HLX_THREADS`, else the machine's available parallelism, or this
/// process's share of it ([`share_threads`]).
pub fn thread_count() -> usize {
    let available = || std::thread::available_parallelism().map_or(1, |count| count.get());
    let share = || (available() / SHARERS.load(Ordering::Relaxed)).max(1);
    environment::number("HLX_THREADS").unwrap_or_else(share)
}

thread_local! {
    /// Whether this thread runs a small launch itself.
    static ALONE: Cell<bool> = const { Cell::new(false) };
}

/// Whether this thread runs a launch by itself, so that loops over the threads of the device stay on it.
pub fn is_alone() -> bool {
    ALONE.get()
}

/// The threads among which the body of a launch may divide its work.
pub fn threads_of_launch() -> usize {
    match is_alone() {
        true => 1,
        false => rayon::current_num_threads(),
    }
}

/// Runs the body of a launch on this thread, as a worker would: waking the workers takes longer than a small launch.
pub(crate) fn alone<R>(body: impl FnOnce() -> R) -> R {
    struct End;
    impl Drop for End {
        fn drop(&mut self) {
            ALONE.set(false);
        }
    }
    ALONE.set(true);
    let _end = End;
    with_flush(body)
}

/// Builds the pool whose workers flush subnormals.
pub(crate) fn worker_pool(threads: usize) -> Result<ThreadPool, CoreError> {
    ThreadPoolBuilder::new()
        .num_threads(threads)
        .thread_name(|index| format!("hlx-cpu-{index}"))
        .start_handler(|_| set_control(control() | FLUSH_BITS))
        .build()
        .map_err(|error| CoreError::invalid("cpu device", error.to_string()))
}

/// The machine's memory in bytes that the CPU device may use: `HLX_MEMORY_LIMIT` (bytes), else
/// what the system says it has, else no limit.
pub fn memory_budget() -> u64 {
    environment::number("HLX_MEMORY_LIMIT").unwrap_or_else(machine::memory)
}

/// The processor's name, where the system reports it.
pub(crate) fn processor_name() -> String {
    let cpuinfo = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    cpuinfo
        .lines()
        .find_map(|line| line.strip_prefix("model name"))
        .map(|rest| rest.trim_start_matches([' ', '\t', ':']).trim().to_owned())
        .filter(|name| !name.is_empty())
        .unwrap_or_else(|| format!("{} processor", std::env::consts::ARCH))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flush_is_set_and_restored() {
        let before = control();
        let half_of_smallest = with_flush(|| std::hint::black_box(f32::MIN_POSITIVE) * 0.5);
        assert_eq!(half_of_smallest.to_bits(), 0);
        assert_eq!(control(), before);
        assert_ne!((std::hint::black_box(f32::MIN_POSITIVE) * 0.5).to_bits(), 0);
    }

    #[test]
    fn flush_is_restored_after_a_panic() {
        let before = control();
        let result = std::panic::catch_unwind(|| with_flush(|| panic!("on purpose")));
        assert!(result.is_err());
        assert_eq!(control(), before);
    }

    #[test]
    fn workers_flush() {
        let pool = worker_pool(2).expect("pool");
        let flushed = pool.broadcast(|_| (std::hint::black_box(f32::MIN_POSITIVE) * 0.5).to_bits());
        assert_eq!(flushed, vec![0, 0]);
    }
}
