//! What is remembered of buffers' values.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use super::Device;
use crate::memory::{Allocation, Buffer};

/// Memory that remembers what the graph being recorded computes.
pub(super) type Remembering = Mutex<Vec<Weak<Allocation>>>;

impl Device {
    /// Remembers what was made of a buffer's values, such as the operand of a product, in the place of what it
    /// replaces, until an element changes ([`Device::note_change`]) or the buffer's memory is freed. While a graph is
    /// recorded it is what the graph computes, and is forgotten as the recording ends. [`Buffer::recall`] finds it.
    pub fn remember<T: Send + Sync + 'static>(
        &self,
        of: &Buffer,
        made: T,
        replaces: impl Fn(&T) -> bool,
    ) {
        let of_recording = self.is_recording();
        of.remember(made, replaces, of_recording);
        if of_recording {
            self.remembering().push(Arc::downgrade(of.allocation()));
        }
    }

    fn remembering(&self) -> MutexGuard<'_, Vec<Weak<Allocation>>> {
        let remembering = self.inner.remembering.lock();
        remembering.unwrap_or_else(PoisonError::into_inner)
    }

    /// Forgets what the graph that was being recorded computes.
    pub(super) fn forget_recorded(&self) {
        let remembering = std::mem::take(&mut *self.remembering());
        for allocation in remembering.iter().filter_map(Weak::upgrade) {
            allocation.forget_recorded();
        }
    }
}
