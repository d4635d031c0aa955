//! Long work on texts: a thread of its own does it, so that Ctrl-C ends it, and Python is told how far it is.

use std::ops::ControlFlow;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{RecvTimeoutError, sync_channel};
use std::sync::{Mutex, PoisonError};

use hlx_text::TextError;
use pyo3::prelude::*;

use crate::error::{Kind, raised, value_error};
use crate::gate::GLANCE;
use crate::keywords::in_keywords;

/// The exception for an error of a text.
pub fn of_text(error: TextError) -> PyErr {
    value_error(in_keywords(&error.to_string()))
}

/// How far the working thread is, and whether it has to stop.
pub struct Teller<P> {
    reached: Mutex<Option<P>>,
    stop: AtomicBool,
}

impl<P> Teller<P> {
    /// Says how far the work is.
    pub fn tell(&self, reached: P) -> ControlFlow<()> {
        *self.reached.lock().unwrap_or_else(PoisonError::into_inner) = Some(reached);
        self.go_on()
    }

    /// Whether the work goes on.
    pub fn go_on(&self) -> ControlFlow<()> {
        match self.stop.load(Ordering::Relaxed) {
            true => ControlFlow::Break(()),
            false => ControlFlow::Continue(()),
        }
    }

    fn take(&self) -> Option<P> {
        let mut reached = self.reached.lock().unwrap_or_else(PoisonError::into_inner);
        reached.take()
    }
}

/// Does work without the interpreter's lock. `tell` is called with the latest news at most every 50 ms, and once at the
/// end; what it raises, and what a signal's handler raises, ends the work.
pub fn work<T: Send, P: Send>(
    py: Python<'_>,
    mut tell: impl FnMut(P) -> PyResult<()>,
    work: impl FnOnce(&Teller<P>) -> Result<T, TextError> + Send,
) -> PyResult<T> {
    let teller = Teller {
        reached: Mutex::new(None),
        stop: AtomicBool::new(false),
    };
    std::thread::scope(|scope| {
        let (sender, mut receiver) = sync_channel(1);
        let teller = &teller;
        let thread = std::thread::Builder::new().name("hlx-text".to_owned());
        let spawned = thread.spawn_scoped(scope, move || {
            // The receiver waits for it.
            let _ = sender.send(work(teller));
        });
        spawned.map_err(|error| {
            raised(
                Kind::Runtime,
                format!("hlx.text: no thread to work on: {error}"),
            )
        })?;
        loop {
            let waiting = &mut receiver;
            let found = py.detach(move || waiting.recv_timeout(GLANCE));
            let told = teller.take().map_or(Ok(()), &mut tell);
            match found {
                Ok(result) => return told.and_then(|()| result.map_err(of_text)),
                Err(RecvTimeoutError::Disconnected) => {
                    return Err(raised(Kind::Runtime, "hlx.text: the work has panicked"));
                }
                Err(RecvTimeoutError::Timeout) => {}
            }
            if let Err(error) = told.and_then(|()| py.check_signals()) {
                teller.stop.store(true, Ordering::Relaxed);
                let waiting = &mut receiver;
                // It stops at its next step; what it returns is not wanted any more.
                let _ = py.detach(move || waiting.recv());
                return Err(error);
            }
        }
    })
}
