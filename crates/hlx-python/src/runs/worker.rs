//! The thread that trains or verifies a run: it hands its events over one by one, and goes on when Python has taken each in.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use anyhow::Result;
use pyo3::prelude::*;
use serde_json::Value;

use crate::error::{Kind, raised};
use crate::fork;
use crate::gate::GLANCE;
use crate::keywords::{in_keywords, of_run};
use crate::wait::{Waiting, is_ending};
use crate::warnings::{self, Listening};

/// What a thread sends: an event by its kind, and last its result.
enum Sent {
    Event(&'static str, Value),
    Ended(Result<Value>),
}

/// What both sides see at any time.
#[derive(Default)]
struct Course {
    stop: AtomicBool,
    step: AtomicU64,
    total: AtomicU64,
}

/// The thread's side.
pub struct Reporter {
    sent: Sender<Sent>,
    taken: Receiver<()>,
    course: Arc<Course>,
}

impl Reporter {
    /// Hands an event over, and waits until it has been taken in. When nobody listens any more, the work is to stop.
    pub fn tell(&self, kind: &'static str, value: Value) {
        let told = self.sent.send(Sent::Event(kind, value)).is_ok() && self.is_taken();
        if !told {
            self.course.stop.store(true, Ordering::SeqCst);
        }
    }

    /// Waits until the event that was sent has been taken in; false if that will not be.
    fn is_taken(&self) -> bool {
        while !is_ending() {
            match self.taken.recv_timeout(GLANCE) {
                Ok(()) => return true,
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return false,
            }
        }
        false
    }

    /// Notes how far the work is.
    pub fn at(&self, step: u64, total: u64) {
        self.course.step.store(step, Ordering::Relaxed);
        self.course.total.store(total, Ordering::Relaxed);
    }

    /// Whether the work is to stop.
    pub fn must_stop(&self) -> bool {
        is_ending() || self.course.stop.load(Ordering::SeqCst)
    }
}

/// Python's side of the channels.
struct Ends {
    sent: Receiver<Sent>,
    taken: Sender<()>,
    /// Whether the thread waits until its last event has been taken in.
    is_owed: bool,
}

/// The work of a run on a thread of its own.
#[pyclass(frozen, module = "hlx._hlx", name = "RunWorker")]
pub struct PyRunWorker {
    operation: &'static str,
    ends: Mutex<Option<Ends>>,
    course: Arc<Course>,
    _listening: Listening,
}

impl PyRunWorker {
    /// Starts the work.
    pub fn start(
        operation: &'static str,
        work: impl FnOnce(&Reporter) -> Result<Value> + Send + 'static,
    ) -> PyResult<Self> {
        fork::check()?;
        fork::opened();
        let (sent, receives) = channel();
        let (takes, taken) = channel();
        let course = Arc::new(Course::default());
        let reporter = Reporter {
            sent,
            taken,
            course: Arc::clone(&course),
        };
        let thread = std::thread::Builder::new().name(format!("hlx-{operation}"));
        let waiting = Waiting::begin();
        let spawned = thread.spawn(move || {
            // Before the process ends, the device's work does.
            let _waiting = waiting;
            let ended = work(&reporter);
            // Nobody receives after an interrupt.
            let _ = reporter.sent.send(Sent::Ended(ended));
        });
        spawned.map_err(|error| {
            let text = format!("{operation}: no thread to work on: {error}");
            raised(Kind::Runtime, text)
        })?;
        Ok(Self {
            operation,
            ends: Mutex::new(Some(Ends {
                sent: receives,
                taken: takes,
                is_owed: false,
            })),
            course,
            _listening: Listening::begin(),
        })
    }

    /// Waits for what the thread sends next, until `deadline`.
    fn receive(&self, py: Python<'_>, deadline: Instant) -> PyResult<Option<Sent>> {
        loop {
            let received = py.detach(|| {
                let mut ends = self.ends.lock().unwrap_or_else(PoisonError::into_inner);
                let ends = ends.as_mut()?;
                if std::mem::take(&mut ends.is_owed) {
                    // A thread that has ended takes no answer.
                    let _ = ends.taken.send(());
                }
                let left = deadline.saturating_duration_since(Instant::now());
                let received = ends.sent.recv_timeout(left.min(GLANCE));
                ends.is_owed = matches!(received, Ok(Sent::Event(..)));
                Some(received)
            });
            match received {
                Some(Ok(sent)) => return Ok(Some(sent)),
                Some(Err(RecvTimeoutError::Timeout)) => {}
                Some(Err(RecvTimeoutError::Disconnected)) => {
                    let text = format!("{}: the thread that works has panicked", self.operation);
                    return Err(raised(Kind::Runtime, text));
                }
                None => {
                    let text = format!("{}: has ended", self.operation);
                    return Err(raised(Kind::Runtime, text));
                }
            }
            py.check_signals()?;
            if Instant::now() >= deadline {
                return Ok(None);
            }
        }
    }
}

#[pymethods]
impl PyRunWorker {
    /// The next event, its kind and its JSON; the last is `end`. None after this many seconds without one. The thread goes on
    /// when this is called again.
    fn next(&self, py: Python<'_>, seconds: f64) -> PyResult<Option<(String, String)>> {
        let patience = Duration::try_from_secs_f64(seconds).unwrap_or(GLANCE);
        match self.receive(py, Instant::now() + patience)? {
            None => Ok(None),
            Some(Sent::Event(kind, value)) => Ok(Some((kind.to_owned(), value.to_string()))),
            Some(Sent::Ended(ended)) => {
                self.leave();
                let value = ended.map_err(|error| of_run(self.operation, error))?;
                Ok(Some(("end".to_owned(), value.to_string())))
            }
        }
    }

    /// Stops the work after the step that it is at; the events up to its end are still to be taken in.
    fn stop(&self) {
        self.course.stop.store(true, Ordering::SeqCst);
    }

    /// Stops the work, and takes no more events in: what is left of it ends by itself.
    fn leave(&self) {
        self.stop();
        self.ends
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take();
    }

    /// The steps that are done, and that there are; both are 0 before the work begins.
    fn progress(&self) -> (u64, u64) {
        let load = |number: &AtomicU64| number.load(Ordering::Relaxed);
        (load(&self.course.step), load(&self.course.total))
    }

    /// Warnings since the last call.
    fn warnings(&self) -> Vec<String> {
        let lines = warnings::take().into_iter();
        lines.map(|line| in_keywords(&line)).collect()
    }
}
