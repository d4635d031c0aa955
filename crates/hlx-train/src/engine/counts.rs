//! What an engine has done, for those who watch it.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};

/// Counters that the engine's thread writes and any thread reads.
#[derive(Debug, Default)]
pub struct Counts {
    pub(super) running: AtomicUsize,
    pub(super) answered: AtomicU64,
    pub(super) cancelled: AtomicU64,
    pub(super) failed: AtomicU64,
    pub(super) prompt_tokens: AtomicU64,
    pub(super) reused_tokens: AtomicU64,
    pub(super) answer_tokens: AtomicU64,
    pub(super) steps: AtomicU64,
    pub(super) computed_rows: AtomicU64,
    pub(super) preempted: AtomicU64,
    pub(super) pages: AtomicUsize,
    pub(super) free_pages: AtomicUsize,
    pub(super) shared_pages: AtomicUsize,
}

/// The counters of a moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Snapshot {
    /// Requests that wait for a place; of a device alone none, as they wait for all devices.
    pub waiting: usize,
    /// Requests whose prompts are being read or whose answers grow.
    pub running: usize,
    /// Requests that were answered.
    pub answered: u64,
    /// Requests whose tickets were dropped before their end.
    pub cancelled: u64,
    /// Requests that ended with an error.
    pub failed: u64,
    /// Tokens of the prompts that were begun.
    pub prompt_tokens: u64,
    /// Those of them that were in the cache.
    pub reused_tokens: u64,
    /// Tokens that were drawn.
    pub answer_tokens: u64,
    /// Steps that appended a token to each of some answers.
    pub steps: u64,
    /// Tokens that these steps appended.
    pub step_tokens: u64,
    /// Times that a request gave its pages back to an older one, and was computed again.
    pub preempted: u64,
    /// The pages of the cache.
    pub pages: usize,
    /// Those that no request has; they may hold what is found again.
    pub free_pages: usize,
    /// Those that several requests have.
    pub shared_pages: usize,
}

impl Snapshot {
    /// Adds what another device has done.
    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        Self {
            waiting: self.waiting + other.waiting,
            running: self.running + other.running,
            answered: self.answered + other.answered,
            cancelled: self.cancelled + other.cancelled,
            failed: self.failed + other.failed,
            prompt_tokens: self.prompt_tokens + other.prompt_tokens,
            reused_tokens: self.reused_tokens + other.reused_tokens,
            answer_tokens: self.answer_tokens + other.answer_tokens,
            steps: self.steps + other.steps,
            step_tokens: self.step_tokens + other.step_tokens,
            preempted: self.preempted + other.preempted,
            pages: self.pages + other.pages,
            free_pages: self.free_pages + other.free_pages,
            shared_pages: self.shared_pages + other.shared_pages,
        }
    }
}

impl Counts {
    /// A request has ended, which `counter` counts.
    pub(super) fn end(&self, counter: &AtomicU64) {
        counter.fetch_add(1, Relaxed);
        self.running.fetch_sub(1, Relaxed);
    }

    pub(super) fn snapshot(&self) -> Snapshot {
        Snapshot {
            waiting: 0,
            running: self.running.load(Relaxed),
            answered: self.answered.load(Relaxed),
            cancelled: self.cancelled.load(Relaxed),
            failed: self.failed.load(Relaxed),
            prompt_tokens: self.prompt_tokens.load(Relaxed),
            reused_tokens: self.reused_tokens.load(Relaxed),
            answer_tokens: self.answer_tokens.load(Relaxed),
            steps: self.steps.load(Relaxed),
            step_tokens: self.computed_rows.load(Relaxed),
            preempted: self.preempted.load(Relaxed),
            pages: self.pages.load(Relaxed),
            free_pages: self.free_pages.load(Relaxed),
            shared_pages: self.shared_pages.load(Relaxed),
        }
    }
}
