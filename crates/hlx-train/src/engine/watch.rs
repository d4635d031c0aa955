//! Who gets logits while a prompt is read.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

/// A function of logits \[rows, V\].
type Look = dyn Fn(&[f32]) + Send + Sync;

/// Gets logits behind the tokens of a prompt while it is read, row by row in order, in pieces of several rows. It is called
/// on the engine's thread, and other answers wait for it.
#[derive(Clone)]
pub struct Watch {
    /// The first token behind which logits are wanted.
    pub from: usize,
    look: Arc<Look>,
    /// How many rows were given: a prompt that is read again gives none twice.
    n_given: Arc<AtomicUsize>,
}

impl Watch {
    /// Calls a function with the logits \[rows, V\] behind the tokens from `from` on.
    pub fn new(from: usize, look: impl Fn(&[f32]) + Send + Sync + 'static) -> Self {
        Self {
            from,
            look: Arc::new(look),
            n_given: Arc::default(),
        }
    }

    /// Gives the rows of the tokens from a place on that were not given before.
    pub(super) fn look(&self, first: usize, rows: &[&[f32]]) {
        let begin = self.from + self.n_given.load(Relaxed);
        let new = rows.get(begin.saturating_sub(first)..).unwrap_or_default();
        if !new.is_empty() {
            self.n_given.fetch_add(new.len(), Relaxed);
            (self.look)(&new.concat());
        }
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
