//! The files of a run that grow while it trains: one rank has them, and the folder's lock.

use anyhow::Result;

use crate::run::{ChainFile, EventFile, Metric, MetricsFile, Place, RunLock};

/// The open files of a run folder.
pub(super) struct RunFiles {
    pub metrics: MetricsFile,
    /// The same for TensorBoard, if the configuration wants it.
    pub events: Option<EventFile>,
    pub chain: ChainFile,
    /// Where the chain says that the steps so far were computed, of an arithmetic whose bits depend on that.
    pub place: Option<Place>,
    /// Nobody else writes to the folder meanwhile.
    pub _lock: RunLock,
}

impl RunFiles {
    /// Appends a line, unless the file has it from before the run was resumed; returns whether it did.
    pub fn note(&mut self, metric: &Metric) -> Result<bool> {
        let is_new = self.metrics.append(metric)?;
        if let Some(events) = self.events.as_mut().filter(|_| is_new) {
            events.append(metric)?;
        }
        Ok(is_new)
    }

    /// Flushes what a checkpoint relies on.
    pub fn flush(&mut self) -> Result<()> {
        self.chain.flush()?;
        self.metrics.flush()
    }

    /// The digest of the newest record.
    pub fn last_record(&self) -> String {
        let last = self.chain.last();
        last.map(|(_, digest)| digest.to_owned())
            .unwrap_or_default()
    }
}
