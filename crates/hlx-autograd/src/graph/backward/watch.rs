//! Finds reads of saved tensors that were changed in place: while a derivative runs, reading the memory
//! of a tensor that is older than the operation, and was changed after it, is noted.

use std::cell::{Cell, RefCell};

use crate::Result;
use crate::error::AutogradError;
use crate::graph::tape::Node;
use crate::graph::tensor::Tensor;

thread_local! {
    /// The moment of the operation whose derivative runs on this thread, and its name.
    static OPERATION: Cell<Option<(u64, &'static str)>> = const { Cell::new(None) };
    /// The first changed tensor that was read.
    static FOUND: RefCell<Option<String>> = const { RefCell::new(None) };
}

/// While it lives, reads count as those of an operation's derivative.
pub(super) struct Watch(Option<(u64, &'static str)>);

impl Watch {
    /// From now on, reads are those of the derivative of `node`.
    pub fn of(node: &Node) -> Self {
        FOUND.take();
        Self(OPERATION.replace(Some((node.id, node.op))))
    }

    /// From now on, reads are nobody's.
    pub fn off() -> Self {
        Self(OPERATION.take())
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        OPERATION.set(self.0);
    }
}

/// The operation whose derivative runs on this thread.
pub(crate) fn operation() -> &'static str {
    OPERATION.get().map_or("backward", |(_, op)| op)
}

/// Notes that the memory of a tensor is read.
pub(crate) fn reads(tensor: &Tensor) {
    let Some((moment, _)) = OPERATION.get() else {
        return;
    };
    if tensor.changed_since(moment) {
        FOUND.with_borrow_mut(|found| {
            found.get_or_insert_with(|| tensor.described());
        });
    }
}

/// The error of a read that was noted.
pub(super) fn check() -> Result<()> {
    match FOUND.take() {
        None => Ok(()),
        Some(tensor) => Err(AutogradError::Changed {
            op: operation(),
            tensor,
        }),
    }
}
