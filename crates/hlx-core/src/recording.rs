//! What a recording is told: which thread records, as its launches are the graph's and no other thread may
//! launch, and what the graph does with launches.

use std::thread::{ThreadId, current};

use crate::error::CoreError;

/// What a graph does with the launches recorded for it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RecordingOptions {
    /// Chains of element-wise launches are joined.
    pub joins: bool,
    /// Launches whose results nobody reads are left out.
    pub skips_unread: bool,
}

/// The thread that is recording a graph on a stream.
///
/// A launch of another thread meanwhile is an error: it would either end up in a graph that it is
/// no part of, or be missing in the one that it was meant for.
pub(crate) struct RecordingThread(ThreadId);

impl RecordingThread {
    /// The calling thread records.
    pub fn current() -> Self {
        Self(current().id())
    }

    /// Refuses an operation of any other thread.
    pub fn check(&self, operation: &str) -> Result<(), CoreError> {
        if self.0 == current().id() {
            return Ok(());
        }
        let reason = "another thread is recording a graph on this device";
        Err(CoreError::invalid(operation, reason))
    }

    /// The error of an operation that cannot be part of a graph.
    pub fn not_recordable(operation: &str) -> CoreError {
        let reason = match operation {
            "record" => "a graph is already being recorded",
            _ => "not possible while a graph is being recorded",
        };
        CoreError::invalid(operation, reason)
    }

    /// The error of ending a recording that is not there.
    pub fn none_recording() -> CoreError {
        CoreError::invalid("record", "no graph is being recorded")
    }
}
