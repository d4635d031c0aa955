//! The tape: one node an operation, numbered in the order of the forward pass.

use std::cell::Cell;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use crate::Result;
use crate::backward::{Backward, Gradient};
use crate::error::AutogradError;

/// How an operation differentiates itself: it takes the gradient of its output and passes the
/// gradients of its inputs to the pass. It runs once, and what it captured is freed after.
pub(crate) type BackwardFn = Box<dyn FnOnce(&mut Backward<'_>, Gradient) -> Result<()> + Send>;

/// One operation on the tape.
pub(crate) struct Node {
    /// Increases in the order of the forward pass, so that consumers have larger numbers than
    /// producers.
    pub id: u64,
    pub op: &'static str,
    /// Taken by the backward pass.
    derivative: Mutex<Option<Derivative>>,
}

/// How to differentiate an operation, and the operations that made its inputs.
pub(crate) struct Derivative {
    pub backward: BackwardFn,
    /// Every node that the closure may own by what it captured, so that dropping a node can drop
    /// these one by one.
    producers: Vec<Arc<Node>>,
}

impl Node {
    pub(crate) fn new(op: &'static str, producers: Vec<Arc<Node>>, backward: BackwardFn) -> Self {
        static NEXT_ID: AtomicU64 = AtomicU64::new(0);
        let id = NEXT_ID.fetch_add(1, Ordering::Relaxed);
        let derivative = Derivative {
            backward,
            producers,
        };
        Self {
            id,
            op,
            derivative: Mutex::new(Some(derivative)),
        }
    }

    /// Takes the closure out, with the tensors that it saved.
    pub(crate) fn take(&self) -> Result<Derivative> {
        let mut derivative = self
            .derivative
            .lock()
            .unwrap_or_else(|poisoned| poisoned.into_inner());
        derivative
            .take()
            .ok_or(AutogradError::Freed { op: self.op })
    }

    /// Drops the closure and what it saved; returns the producers, which are still alive.
    fn release(&mut self) -> Vec<Arc<Node>> {
        let derivative = self
            .derivative
            .get_mut()
            .unwrap_or_else(|poisoned| poisoned.into_inner());
        derivative
            .take()
            .map_or(Vec::new(), |derivative| derivative.producers)
    }
}

impl Drop for Node {
    /// Frees the operations that only this one kept, in a loop: a chain of them may be longer than
    /// the stack is deep.
    fn drop(&mut self) {
        let mut unreached = self.release();
        while let Some(node) = unreached.pop() {
            if let Some(mut node) = Arc::into_inner(node) {
                unreached.append(&mut node.release());
            }
        }
    }
}

thread_local! {
    static GRADIENTS: Cell<bool> = const { Cell::new(true) };
}

/// Whether operations on this thread go on the tape.
pub fn gradients_enabled() -> bool {
    GRADIENTS.get()
}

/// Runs a closure without the tape: its results require no gradient and save nothing.
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
