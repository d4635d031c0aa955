//! Faults that a kernel finds in its data, such as an index out of range: it sets a word on the
//! device, and the host reads it when it waits for the device anyway.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, OnceLock, PoisonError};

use super::Device;
use crate::dtype::DType;
use crate::error::CoreError;
use crate::memory::{ALIGNMENT_WORDS, Buffer};

/// What a flag holds while nothing was wrong.
const UNSET: u32 = u32::MAX;

/// The most operations that have a flag of their own.
const SLOTS: usize = 32;

/// The flags of a device, a word each, apart as bindings must be.
#[derive(Default)]
pub(super) struct Flags {
    words: OnceLock<Buffer>,
    /// The operations that have a flag, in the order of their slots.
    operations: Mutex<Vec<&'static str>>,
    /// Whether a launch may have set one.
    used: AtomicBool,
}

impl Flags {
    fn operations(&self) -> std::sync::MutexGuard<'_, Vec<&'static str>> {
        self.operations
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}

impl Device {
    /// Returns the flag of an operation: one u32 that its kernels may lower, by an atomic minimum, to
    /// the place of a fault in their data. The next call that waits for the device (a download,
    /// [`Device::sync`]) then returns [`CoreError::Fault`], and the flag is as before.
    ///
    /// # Errors
    /// What the device reports.
    pub fn flag(&self, operation: &'static str) -> Result<Buffer, CoreError> {
        self.prepare_flags()?;
        let flags = self.flags();
        flags.used.store(true, Ordering::Release);
        let mut operations = flags.operations();
        let known = operations.iter().position(|other| *other == operation);
        let slot = known.unwrap_or_else(|| {
            if operations.len() < SLOTS {
                operations.push(operation);
            }
            operations.len() - 1
        });
        match flags.words.get() {
            Some(words) => words
                .slice(slot * ALIGNMENT_WORDS, 1)?
                .view_as(DType::U32, 1),
            None => Err(CoreError::invalid(operation, "the device has no flags")),
        }
    }

    /// Makes the flags, which cannot be made while a graph is recorded.
    pub(super) fn prepare_flags(&self) -> Result<(), CoreError> {
        let flags = self.flags();
        if flags.words.get().is_some() {
            return Ok(());
        }
        let words = self.alloc_isolated(SLOTS * ALIGNMENT_WORDS)?;
        // No launch, which a timing report would list.
        self.upload_words(&words, &[UNSET; SLOTS * ALIGNMENT_WORDS])?;
        // Another thread may have been first; its flags are as good.
        let _ = flags.words.set(words);
        Ok(())
    }

    /// Reports a fault that work before this point has found.
    pub(super) fn check_flags(&self) -> Result<(), CoreError> {
        let flags = self.flags();
        let Some(words) = flags
            .words
            .get()
            .filter(|_| flags.used.load(Ordering::Acquire))
        else {
            return Ok(());
        };
        let found = self.read_words(words)?;
        let operations = flags.operations();
        for (slot, operation) in operations.iter().enumerate() {
            let place = found[slot * ALIGNMENT_WORDS];
            if place != UNSET {
                self.upload_words(words, &[UNSET; SLOTS * ALIGNMENT_WORDS])?;
                return Err(CoreError::Fault { operation, place });
            }
        }
        Ok(())
    }
}
