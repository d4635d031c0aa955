//! What a run tells while it runs: the library prints nothing itself.

use std::path::Path;

use crate::run::Metric;

/// Hears of a run's course.
pub trait Observer {
    /// A step has been launched.
    fn step(&mut self, _step: u64, _total_steps: u64) {}

    /// A line went to the metrics file.
    fn metric(&mut self, _metric: &Metric) {}

    /// A checkpoint was written into this folder.
    fn checkpoint(&mut self, _step: u64, _folder: &Path) {}
}

/// Hears nothing.
pub struct Silent;

impl Observer for Silent {}
