//! Processes that fork: a child has the parent's devices without the threads that carry them out, so that it would
//! wait for ever. It gets an error instead.

use std::sync::atomic::{AtomicBool, Ordering};

use pyo3::prelude::*;

use crate::error::{Kind, raised};

/// Whether this process has opened a device.
static OPENED: AtomicBool = AtomicBool::new(false);
/// Whether this process is a fork of one that had.
static FORKED: AtomicBool = AtomicBool::new(false);

/// Notes that a device is open.
pub fn opened() {
    OPENED.store(true, Ordering::Relaxed);
}

/// Called in the child of a fork, before anything else runs there.
#[pyfunction]
pub fn note_fork() {
    FORKED.store(OPENED.load(Ordering::Relaxed), Ordering::Relaxed);
}

/// Refuses work in a process whose parent had opened a device when it forked.
pub fn check() -> PyResult<()> {
    if !FORKED.load(Ordering::Relaxed) {
        return Ok(());
    }
    Err(raised(
        Kind::Runtime,
        "hlx: this process was forked after a device was opened, whose threads it does not have; start it with \
         multiprocessing.get_context(\"spawn\"), or fork before the first tensor",
    ))
}
