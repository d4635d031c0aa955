//! Time, bytes and arithmetic by kernel name, and when each launch ran.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

use serde::Serialize;

/// Launches of a report that are listed one by one; later ones are only counted by their kernel.
const MAX_LAUNCHES: usize = 1 << 18;

/// What a launch moves and computes, for timing reports and for the length of submissions: no
/// result depends on it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Work {
    /// Bytes read and written.
    pub bytes: u64,
    /// Floating-point operations, a multiply-add counted as two; 0 where nobody counted them.
    pub flops: u64,
}

impl Work {
    /// Both together; a number that nobody counts to stays at its end.
    pub(crate) fn and(self, other: Self) -> Self {
        Self {
            bytes: self.bytes.saturating_add(other.bytes),
            flops: self.flops.saturating_add(other.flops),
        }
    }

    /// A fill or a copy that moves this many bytes.
    pub(crate) fn transfer(bytes: u64) -> Self {
        Self { bytes, flops: 0 }
    }
}

/// One kernel's part of a report.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct KernelTime {
    /// The launch's name.
    pub name: String,
    /// How often it ran.
    pub calls: u64,
    /// Its time in all, in milliseconds.
    pub total_ms: f64,
    /// Its bytes and operations in all.
    pub work: Work,
}

/// When one launch ran.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct LaunchTime {
    /// The launch's name.
    pub name: &'static str,
    /// Its start after the report's first launch, in microseconds of the device's clock.
    pub start_us: f64,
    /// How long it took, in microseconds.
    pub duration_us: f64,
    /// Its bytes and operations.
    pub work: Work,
}

/// The times of the kernels that ran while timing was on.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct TimingReport {
    /// One entry per kernel, longest first.
    pub kernels: Vec<KernelTime>,
    /// One entry per launch, by their start; the first 262,144 of them.
    pub launches: Vec<LaunchTime>,
}

impl TimingReport {
    /// The time of all kernels, in milliseconds.
    pub fn total_ms(&self) -> f64 {
        self.kernels.iter().map(|kernel| kernel.total_ms).sum()
    }
}

/// Collects times; shared by both kinds of device.
pub(crate) struct TimingCollector {
    /// The zero of the CPU device's clock.
    pub origin: Instant,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    kernels: BTreeMap<&'static str, KernelTime>,
    launches: Vec<LaunchTime>,
}

impl Default for TimingCollector {
    fn default() -> Self {
        Self {
            origin: Instant::now(),
            state: Mutex::default(),
        }
    }
}

impl TimingCollector {
    /// Notes a launch that started `start_ns` after the zero of the device's clock.
    pub fn add(&self, name: &'static str, work: Work, start_ns: f64, duration_ns: f64) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let kernel = state.kernels.entry(name).or_default();
        kernel.calls += 1;
        kernel.total_ms += duration_ns * 1e-6;
        kernel.work = kernel.work.and(work);
        if state.launches.len() < MAX_LAUNCHES {
            state.launches.push(LaunchTime {
                name,
                start_us: start_ns * 1e-3,
                duration_us: duration_ns * 1e-3,
                work,
            });
        }
    }

    pub fn take(&self) -> TimingReport {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let State {
            kernels,
            mut launches,
        } = std::mem::take(&mut *state);
        let mut kernels: Vec<KernelTime> = kernels
            .into_iter()
            .map(|(name, kernel)| KernelTime {
                name: name.to_owned(),
                ..kernel
            })
            .collect();
        kernels.sort_by(|a, b| b.total_ms.total_cmp(&a.total_ms));
        launches.sort_by(|a, b| a.start_us.total_cmp(&b.start_us));
        let first = launches.first().map_or(0.0, |launch| launch.start_us);
        for launch in &mut launches {
            launch.start_us -= first;
        }
        TimingReport { kernels, launches }
    }
}
