//! Work under way: the interpreter is released while it runs, and Ctrl-C ends the wait for a GPU.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{RecvTimeoutError, sync_channel};
use std::sync::{Condvar, Mutex, PoisonError};

use hlx_autograd::{AutogradError, Tensor};
use hlx_core::Device;
use pyo3::prelude::*;

use crate::error::{Kind, of_tensor, raised};
use crate::fork;
use crate::gate::{self, GLANCE};

/// What an operation of tensors returns.
type Result<T, E = AutogradError> = std::result::Result<T, E>;

/// Runs an operation without the interpreter's lock.
pub fn run<T: Send>(py: Python<'_>, operation: impl FnOnce() -> Result<T> + Send) -> PyResult<T> {
    run_as(py, of_tensor, operation)
}

/// As [`run`], of an operation with errors of its own.
pub fn run_as<T: Send, E: Send>(
    py: Python<'_>,
    raised: impl FnOnce(E) -> PyErr,
    operation: impl FnOnce() -> Result<T, E> + Send,
) -> PyResult<T> {
    fork::check()?;
    let _pass = gate::pass(py)?;
    py.detach(operation).map_err(raised)
}

/// A result of an operation with an index, whose places the CPU device has checked by now; other devices report a
/// place out of range when something waits for them.
pub fn checked<T>(x: &Tensor, result: T) -> Result<T> {
    if x.device().is_cpu() && !x.device().is_recording() {
        x.device().sync()?;
    }
    Ok(result)
}

/// Runs an operation that launches nothing, such as a view: releasing the lock would take longer.
pub fn run_at_once<T>(operation: impl FnOnce() -> Result<T>) -> PyResult<T> {
    fork::check()?;
    operation().map_err(of_tensor)
}

/// Runs what waits for a device. A signal's handler, such as Ctrl-C's, runs within 50 ms; if it raises, the wait is
/// given up, and goes on and ends on a thread of its own. The CPU device has nothing to wait for.
pub fn wait<T: Send + 'static>(
    py: Python<'_>,
    device: &Device,
    operation: impl FnOnce() -> Result<T> + Send + 'static,
) -> PyResult<T> {
    // While a graph is recorded the device refuses to wait, with an error that is another one on another thread.
    if device.is_cpu() || device.is_recording() {
        return run(py, operation);
    }
    fork::check()?;
    let _pass = gate::pass(py)?;
    let (sender, mut receiver) = sync_channel(1);
    let work = std::thread::Builder::new().name("hlx-wait".to_owned());
    let waiting = Waiting::begin();
    let spawned = work.spawn(move || {
        let _waiting = waiting;
        // Nobody receives after an interrupt.
        let _ = sender.send(operation());
    });
    spawned
        .map_err(|error| raised(Kind::Runtime, format!("hlx: no thread to wait on: {error}")))?;
    loop {
        let receiver = &mut receiver;
        match py.detach(move || receiver.recv_timeout(GLANCE)) {
            Ok(result) => return result.map_err(of_tensor),
            Err(RecvTimeoutError::Timeout) => py.check_signals()?,
            Err(RecvTimeoutError::Disconnected) => {
                return Err(raised(
                    Kind::Runtime,
                    "hlx: the wait for the device has panicked",
                ));
            }
        }
    }
}

/// The number of threads that wait, and its changes.
static WAITING: (Mutex<usize>, Condvar) = (Mutex::new(0), Condvar::new());

/// A thread that waits, or works for a run: the process ends after it.
pub struct Waiting;

impl Waiting {
    /// Counts the thread until this is dropped.
    pub fn begin() -> Self {
        *WAITING.0.lock().unwrap_or_else(PoisonError::into_inner) += 1;
        Self
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        *WAITING.0.lock().unwrap_or_else(PoisonError::into_inner) -= 1;
        WAITING.1.notify_all();
    }
}

/// Whether the process is about to end.
static ENDING: AtomicBool = AtomicBool::new(false);

/// Whether the process is about to end: work that can stop early does, and nobody in Python takes anything in.
pub fn is_ending() -> bool {
    ENDING.load(Ordering::SeqCst)
}

/// Waits, before the process ends, until no thread waits for a device any more; Ctrl-C ends it.
pub fn wait_for_threads(py: Python<'_>) -> PyResult<()> {
    ENDING.store(true, Ordering::SeqCst);
    loop {
        let done = py.detach(|| {
            let waiting = WAITING.0.lock().unwrap_or_else(PoisonError::into_inner);
            let (waiting, _) = WAITING
                .1
                .wait_timeout_while(waiting, GLANCE, |waiting| *waiting > 0)
                .unwrap_or_else(PoisonError::into_inner);
            *waiting == 0
        });
        if done {
            return Ok(());
        }
        py.check_signals()?;
    }
}
