//! The tape: one record an operation, numbered in the order of the forward pass.

use std::cell::Cell;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::Result;
use crate::backward::{Backward, Gradient};
use crate::error::AutogradError;

/// How an operation differentiates itself: it takes the gradient of its output and hands the
/// gradients of its inputs to the pass. It runs once, and what it captured is freed after.
pub(crate) type BackwardFn = Box<dyn FnOnce(&mut Backward<'_>, Gradient) -> Result<()> + Send>;

/// One operation's record.
pub(crate) struct Node {
    /// Increases in the order of recording, so that consumers have larger numbers than producers.
    pub id: u64,
    pub op: &'static str,
    backward: Mutex<Option<BackwardFn>>,
}

impl Node {
    pub(crate) fn new(op: &'static str, backward: BackwardFn) -> Self {
        static NEXT_ID: AtomicU64 = AtomicU64::new(0);
        let id = NEXT_ID.fetch_add(1, Ordering::Relaxed);
        Self {
            id,
            op,
            backward: Mutex::new(Some(backward)),
        }
    }

    /// Takes the closure out, with the tensors that it saved.
    pub(crate) fn take(&self) -> Result<BackwardFn> {
        let mut slot = self
            .backward
            .lock()
            .unwrap_or_else(|poisoned| poisoned.into_inner());
        slot.take().ok_or(AutogradError::Freed { op: self.op })
    }
}

thread_local! {
    static GRADIENTS: Cell<bool> = const { Cell::new(true) };
}

/// Whether operations on this thread are being recorded.
pub fn gradients_enabled() -> bool {
    GRADIENTS.get()
}

/// Runs a closure without recording: its results require no gradient and save nothing.
///
/// The setting is this thread's and is restored when the closure ends, by a panic too.
pub fn no_grad<R>(body: impl FnOnce() -> R) -> R {
    struct Restore(bool);
    impl Drop for Restore {
        fn drop(&mut self) {
            GRADIENTS.set(self.0);
        }
    }
    let _restore = Restore(GRADIENTS.replace(false));
    body()
}
