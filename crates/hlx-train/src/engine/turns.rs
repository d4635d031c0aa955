//! Turns of the engines on a device: while one records a step, the device takes no work of other threads.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use hlx_core::Device;

/// The turns on a device, which all engines on it share.
#[derive(Clone, Default)]
pub(super) struct Turns(Arc<Mutex<()>>);

impl Turns {
    pub fn of(device: &Device) -> Self {
        device.extension(Self::default).clone()
    }

    /// Waits for a turn, which lasts until the guard is dropped. Nobody else is called in a turn.
    pub fn take(&self) -> MutexGuard<'_, ()> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
