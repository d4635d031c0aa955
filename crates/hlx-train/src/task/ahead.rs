//! Batches that workers make ahead of the steps that take them.

use std::sync::{Mutex, PoisonError};

use anyhow::{Context as _, Result, anyhow};
use hlx_data::Ordered;

use crate::rows::BatchSizes;

/// Batches that may be made without having been taken.
pub(super) const AHEAD: usize = 4;

/// Batches by their numbers. They continue with the batch after the last one that was taken; an error reaches
/// the step that needs the batch. Without workers they are made when they are taken.
pub(super) struct Ahead<B> {
    workers: usize,
    /// The batches from the next one on; none before the first.
    running: Mutex<Option<Running<B>>>,
}

struct Running<B> {
    /// The number of the next batch.
    next: u64,
    sizes: BatchSizes,
    made: Ordered<Result<B>>,
}

impl<B: Send + 'static> Ahead<B> {
    pub fn new(workers: usize) -> Self {
        Self {
            workers,
            running: Mutex::new(None),
        }
    }

    /// Takes the batch of a number; `make` makes any, of these sizes.
    ///
    /// # Errors
    /// Those of `make`, and a worker that panicked.
    pub fn take<M>(&self, number: u64, sizes: BatchSizes, make: M) -> Result<B>
    where
        M: Fn(u64) -> Result<B> + Send + Sync + 'static,
    {
        let mut running = self.running.lock().unwrap_or_else(PoisonError::into_inner);
        let goes_on = |one: &Running<B>| one.next == number && one.sizes == sizes;
        // Else the run begins, or continues elsewhere.
        let mut current = match running.take().filter(goes_on) {
            Some(current) => current,
            None => Running {
                next: number,
                sizes,
                made: Ordered::new(number..u64::MAX, make, self.workers, AHEAD),
            },
        };
        let made = current.made.next();
        current.next += 1;
        *running = Some(current);
        let made = made.context("the batches have come to their end")?;
        made.map_err(|panic| anyhow!("a batch's worker panicked: {panic}"))?
    }
}
