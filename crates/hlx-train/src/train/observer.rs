//! Progress events of a run: the library prints nothing itself.

use std::path::Path;

use crate::run::Metric;

/// Receives the progress events of a run.
pub trait Observer {
    /// A step has been launched.
    fn step(&mut self, _step: u64, _total_steps: u64) {}

    /// How long a step takes: measured over the first steps, and told once.
    fn pace(&mut self, _ms_per_step: f64) {}

    /// A line went to the metrics file.
    fn metric(&mut self, _metric: &Metric) {}

    /// A checkpoint was written into this folder.
    fn checkpoint(&mut self, _step: u64, _folder: &Path) {}

    /// Whether the run is to end after the step just done, with a checkpoint.
    fn must_stop(&self) -> bool {
        false
    }
}

/// Ignores every event.
pub struct Silent;

impl Observer for Silent {}
