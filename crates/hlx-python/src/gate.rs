//! Recordings and threads: while one thread records a graph, a device refuses the work of others. Where the recording is
//! `hlx.compile`'s, of which they know nothing, they wait here until it is done.

use std::cell::Cell;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Condvar, Mutex, PoisonError};
use std::time::Duration;

use pyo3::prelude::*;

/// How long a wait goes on before Python's signals are looked at.
pub const GLANCE: Duration = Duration::from_millis(50);
/// How long the thread that is about to record waits between two looks at the work of others.
const PAUSE: Duration = Duration::from_micros(50);

/// The number of threads that work.
static WORKING: AtomicUsize = AtomicUsize::new(0);
/// The number of threads that record: 0 or 1.
static RECORDING: AtomicUsize = AtomicUsize::new(0);
/// For those who wait until nobody records.
static ENDED: (Mutex<()>, Condvar) = (Mutex::new(()), Condvar::new());

thread_local! {
    /// How many passes this thread holds.
    static PASSES: Cell<usize> = const { Cell::new(0) };
    /// Whether this thread records.
    static RECORDS: Cell<bool> = const { Cell::new(false) };
}

/// The right to work, until it is dropped.
pub struct Pass {
    /// Whether it is the thread's first, by which the thread is counted.
    is_counted: bool,
}

impl Drop for Pass {
    fn drop(&mut self) {
        PASSES.set(PASSES.get() - 1);
        if self.is_counted {
            WORKING.fetch_sub(1, Ordering::SeqCst);
        }
    }
}

/// Waits until no other thread records.
///
/// # Errors
/// What a signal's handler raises.
pub fn pass(py: Python<'_>) -> PyResult<Pass> {
    let is_counted = PASSES.get() == 0 && !RECORDS.get();
    if is_counted {
        loop {
            WORKING.fetch_add(1, Ordering::SeqCst);
            if RECORDING.load(Ordering::SeqCst) == 0 {
                break;
            }
            WORKING.fetch_sub(1, Ordering::SeqCst);
            wait_for_the_end(py)?;
        }
    }
    PASSES.set(PASSES.get() + 1);
    Ok(Pass { is_counted })
}

fn wait_for_the_end(py: Python<'_>) -> PyResult<()> {
    py.detach(|| {
        let lock = ENDED.0.lock().unwrap_or_else(PoisonError::into_inner);
        let recorded = |_: &mut ()| RECORDING.load(Ordering::SeqCst) > 0;
        drop(ENDED.1.wait_timeout_while(lock, GLANCE, recorded));
    });
    py.check_signals()
}

/// Begins a recording of this thread: waits until no other records, and for the work of others to end.
///
/// # Errors
/// What a signal's handler raises.
pub fn begin(py: Python<'_>) -> PyResult<()> {
    if RECORDS.get() {
        // The device refuses a recording within another.
        return Ok(());
    }
    while RECORDING
        .compare_exchange(0, 1, Ordering::SeqCst, Ordering::SeqCst)
        .is_err()
    {
        wait_for_the_end(py)?;
    }
    RECORDS.set(true);
    let own = usize::from(PASSES.get() > 0);
    while WORKING.load(Ordering::SeqCst) > own {
        py.detach(|| std::thread::sleep(PAUSE));
        if let Err(error) = py.check_signals() {
            end();
            return Err(error);
        }
    }
    Ok(())
}

/// Whether this thread records.
pub fn records() -> bool {
    RECORDS.get()
}

/// Ends the recording of this thread, if it records.
pub fn end() {
    if RECORDS.replace(false) {
        let _lock = ENDED.0.lock().unwrap_or_else(PoisonError::into_inner);
        RECORDING.store(0, Ordering::SeqCst);
        ENDED.1.notify_all();
    }
}
