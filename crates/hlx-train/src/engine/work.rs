//! What the threads of an engine get.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use super::Embedded;
use super::request::{Event, Request};

/// Gets what happens to an answer, on any thread.
pub(super) type Hear = Box<dyn FnMut(Event<Vec<u8>>) + Send>;

/// What is to be done for somebody who may leave.
pub(super) struct Work {
    pub is_cancelled: Arc<AtomicBool>,
    pub job: Job,
    /// What has happened to the request on another device: it happens again, and is not told again.
    pub n_known: usize,
}

/// What is to be done.
pub(super) enum Job {
    Answer(Box<Request>, Hear),
    Embed(Vec<u32>, Embedded),
}

impl Work {
    /// What nothing has happened to.
    pub fn new(is_cancelled: Arc<AtomicBool>, job: Job) -> Self {
        Self {
            is_cancelled,
            job,
            n_known: 0,
        }
    }
}

impl std::fmt::Debug for Work {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Work")
    }
}
