//! The rest of an epoch as an iterator of batches in host memory.

use super::ordered::{Ordered, Outcome};
use super::{Batch, Cursor};
use crate::{DataError, Result};

/// The batches of an epoch in order, made ahead by worker threads. Dropping it stops them.
pub struct Batches<B> {
    made: Ordered<Result<Batch<B>>>,
    /// The place of the next batch.
    cursor: Cursor,
    /// The number after the epoch's last batch.
    end: u64,
    failed: bool,
}

impl<B: Send + 'static> Batches<B> {
    pub(super) fn new(
        cursor: Cursor,
        end: u64,
        work: impl Fn(u64) -> Result<Batch<B>> + Send + Sync + 'static,
        workers: usize,
        ahead: usize,
    ) -> Self {
        Self {
            made: Ordered::new(cursor.batch..end, work, workers, ahead),
            cursor,
            end,
            failed: false,
        }
    }

    /// The place of the next batch; after the epoch's last one, the start of the next epoch.
    pub fn cursor(&self) -> Cursor {
        match self.cursor.batch < self.end {
            true => self.cursor,
            false => Cursor::start_of(self.cursor.epoch + 1),
        }
    }

    /// The next batch if a worker has made it already.
    pub(super) fn next_ready(&mut self) -> Option<Result<Batch<B>>> {
        match self.failed {
            true => None,
            false => self.made.next_ready().map(|outcome| self.take(outcome)),
        }
    }

    fn take(&mut self, outcome: Outcome<Result<Batch<B>>>) -> Result<Batch<B>> {
        let batch = self.cursor.batch;
        let panicked = |message| DataError::Panic {
            batch,
            sample: None,
            message,
        };
        let made = outcome.unwrap_or_else(|message| Err(panicked(message)));
        self.failed = made.is_err();
        if !self.failed {
            self.cursor.batch += 1;
        }
        made
    }
}

impl<B: Send + 'static> Iterator for Batches<B> {
    type Item = Result<Batch<B>>;

    fn next(&mut self) -> Option<Self::Item> {
        match self.failed {
            true => None,
            false => self.made.next().map(|outcome| self.take(outcome)),
        }
    }
}
