//! Who gets logits while a prompt is read.

use std::sync::Arc;

/// A function of logits \[rows, V\].
type Look = dyn Fn(&[f32]) + Send + Sync;

/// Gets logits behind the tokens of a prompt while it is read, row by row in order, in pieces of several rows. It is called
/// on the engine's thread, and other answers wait for it.
#[derive(Clone)]
pub struct Watch {
    /// The first token behind which logits are wanted.
    pub from: usize,
    look: Arc<Look>,
}

impl Watch {
    /// Calls a function with the logits \[rows, V\] behind the tokens from `from` on.
    pub fn new(from: usize, look: impl Fn(&[f32]) + Send + Sync + 'static) -> Self {
        Self {
            from,
            look: Arc::new(look),
        }
    }

    pub(super) fn look(&self, logits: &[f32]) {
        (self.look)(logits);
    }
}

impl std::fmt::Debug for Watch {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Watch from {}", self.from)
    }
}

impl PartialEq for Watch {
    /// Whether both are one.
    fn eq(&self, other: &Self) -> bool {
        self.from == other.from && Arc::ptr_eq(&self.look, &other.look)
    }
}
