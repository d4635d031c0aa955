//! Time by kernel name.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use serde::Serialize;

/// One kernel's share of a profile.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct KernelTime {
    /// The launch's name.
    pub name: String,
    /// How often it ran.
    pub calls: u64,
    /// Its time in all, in milliseconds.
    pub total_ms: f64,
}

/// The kernels that ran while profiling was on, longest first.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct ProfileReport {
    /// One entry a kernel.
    pub kernels: Vec<KernelTime>,
}

impl ProfileReport {
    /// The time of all kernels, in milliseconds.
    pub fn total_ms(&self) -> f64 {
        self.kernels.iter().map(|kernel| kernel.total_ms).sum()
    }
}

/// Collects times; shared by both kinds of device.
#[derive(Default)]
pub(crate) struct Profiler {
    times: Mutex<BTreeMap<&'static str, (u64, f64)>>,
}

impl Profiler {
    pub fn add(&self, name: &'static str, milliseconds: f64) {
        let mut times = self.times.lock().unwrap_or_else(PoisonError::into_inner);
        let entry = times.entry(name).or_default();
        entry.0 += 1;
        entry.1 += milliseconds;
    }

    pub fn take(&self) -> ProfileReport {
        let times = std::mem::take(&mut *self.times.lock().unwrap_or_else(PoisonError::into_inner));
        let mut kernels: Vec<KernelTime> = times
            .into_iter()
            .map(|(name, (calls, total_ms))| KernelTime {
                name: name.to_owned(),
                calls,
                total_ms,
            })
            .collect();
        kernels.sort_by(|a, b| b.total_ms.total_cmp(&a.total_ms));
        ProfileReport { kernels }
    }
}
