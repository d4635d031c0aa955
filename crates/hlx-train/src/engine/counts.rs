//! What an engine has done, for those who watch it.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};

/// Counters that the engine's thread writes and any thread reads.
#[derive(Debug, Default)]
pub struct Counts {
    waiting: AtomicUsize,
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
    /// Requests that wait for a place.
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

impl Counts {
    /// Counts `n` more requests that wait, if they are at most `limit` then; else returns how many wait.
    pub(super) fn queue(&self, n: usize, limit: usize) -> Result<(), usize> {
        let more = |waiting: usize| waiting.checked_add(n).filter(|&all| all <= limit);
        self.waiting.fetch_update(Relaxed, Relaxed, more).map(drop)
    }

    /// A request waits no longer.
    pub(super) fn unqueue(&self) {
        self.waiting.fetch_sub(1, Relaxed);
    }

    /// A request has ended, which `counter` counts.
    pub(super) fn end(&self, counter: &AtomicU64) {
        counter.fetch_add(1, Relaxed);
        self.running.fetch_sub(1, Relaxed);
    }

    pub(super) fn snapshot(&self) -> Snapshot {
        Snapshot {
            waiting: self.waiting.load(Relaxed),
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
