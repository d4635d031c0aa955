//! Texts and tokens that come one after the other: a thread of its own makes each when it is asked for.

use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Mutex, PoisonError};
use std::thread::JoinHandle;

use anyhow::anyhow;
use hlx_core::Device;
use hlx_train::generate::News;
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::error::{Kind, raised};
use crate::fork;
use crate::gate::{self, GLANCE};

/// What comes of a sequence, by its number.
pub enum Event {
    /// The next bytes of a text.
    Bytes(usize, Vec<u8>),
    /// The next token.
    Token(usize, u32),
    /// Its end, or why it has none.
    End(usize, Option<String>),
}

/// What the thread sends: an event, or its own end.
type Sent = Result<Event, Option<String>>;

/// The thread's side of a stream.
pub struct Teller {
    wanted: Receiver<()>,
    events: Sender<Sent>,
}

impl Teller {
    /// Hands an event over, and waits until the next one is wanted.
    ///
    /// # Errors
    /// When nobody wants any more.
    pub fn tell(&self, event: Event) -> anyhow::Result<()> {
        let closed = || anyhow!("the stream was closed");
        self.events.send(Ok(event)).map_err(|_| closed())?;
        self.wanted.recv().map_err(|_| closed())
    }

    /// Hands over what is new of a text.
    ///
    /// # Errors
    /// As [`Teller::tell`].
    pub fn news(&self, number: usize, news: News<'_>) -> anyhow::Result<()> {
        self.tell(match news {
            News::Bytes(bytes) => Event::Bytes(number, bytes.to_vec()),
            News::End(text) => Event::End(number, text.err().map(|error| format!("{error:#}"))),
        })
    }
}

/// A thread that makes events while one is wanted.
struct Running {
    wanted: Option<Sender<()>>,
    events: Receiver<Sent>,
    thread: Option<JoinHandle<()>>,
}

impl Drop for Running {
    /// The thread ends with the step that it is at.
    fn drop(&mut self) {
        self.wanted = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// A stream of texts or tokens.
#[pyclass(frozen, module = "hlx._hlx", name = "GeneratedStream")]
pub struct PyStream {
    operation: &'static str,
    device: Device,
    running: Mutex<Option<Running>>,
}

impl PyStream {
    fn is_recorded(&self) -> PyErr {
        let text = format!("{}: cannot run while a graph is recorded", self.operation);
        raised(Kind::Runtime, text)
    }

    /// Makes events by a function, which waits in [`Teller::tell`].
    pub fn start(
        operation: &'static str,
        device: Device,
        make: impl FnOnce(&Teller) -> anyhow::Result<()> + Send + 'static,
    ) -> PyResult<Self> {
        fork::check()?;
        let (wanted, wants) = channel();
        let (sender, events) = channel();
        let teller = Teller {
            wanted: wants,
            events: sender,
        };
        let work = move || {
            if teller.wanted.recv().is_err() {
                return; // Closed before the first event.
            }
            let ended = make(&teller).err().map(|error| format!("{error:#}"));
            // Nobody receives after a close.
            let _ = teller.events.send(Err(ended));
        };
        let thread = std::thread::Builder::new().name("hlx-generate".to_owned());
        let thread = thread.spawn(work).map_err(|error| {
            raised(
                Kind::Runtime,
                format!("{operation}: no thread to work on: {error}"),
            )
        })?;
        let running = Running {
            wanted: Some(wanted),
            events,
            thread: Some(thread),
        };
        Ok(Self {
            operation,
            device,
            running: Mutex::new(Some(running)),
        })
    }

    /// Waits for the next event; a signal's handler, such as Ctrl-C's, runs within 50 ms.
    fn receive(&self, py: Python<'_>, running: &Running) -> PyResult<Sent> {
        loop {
            let events = Shared(&running.events);
            match py.detach(move || events.recv_timeout()) {
                Ok(sent) => return Ok(sent),
                Err(RecvTimeoutError::Timeout) => py.check_signals()?,
                Err(RecvTimeoutError::Disconnected) => {
                    let text =
                        format!("{}: the thread that generates has panicked", self.operation);
                    return Err(raised(Kind::Runtime, text));
                }
            }
        }
    }
}

/// A receiver that one thread uses at a time, as the stream's lock has it.
struct Shared<'a>(&'a Receiver<Sent>);

// SAFETY: the lock of the stream is held by the only thread that receives.
unsafe impl Send for Shared<'_> {}

impl Shared<'_> {
    fn recv_timeout(&self) -> Result<Sent, RecvTimeoutError> {
        self.0.recv_timeout(GLANCE)
    }
}

/// The number of a sequence; its next bytes or token, or None at its end, and why it has none.
type PythonEvent<'py> = (usize, Option<Bound<'py, PyAny>>, Option<String>);

#[pymethods]
impl PyStream {
    fn __iter__(slf: Bound<'_, Self>) -> Bound<'_, Self> {
        slf
    }

    /// The next event: the sequence's number, and its next bytes or token, or None at its end and why it has none.
    fn __next__<'py>(&self, py: Python<'py>) -> PyResult<Option<PythonEvent<'py>>> {
        if gate::records() {
            return Err(self.is_recorded());
        }
        let Ok(mut held) = self.running.try_lock() else {
            let text = format!("{}: another thread waits for this stream", self.operation);
            return Err(raised(Kind::Runtime, text));
        };
        let Some(running) = held.as_ref() else {
            return Ok(None);
        };
        // The steps of a cache are recorded: no other thread may work meanwhile.
        gate::begin(py)?;
        if self.device.is_recording() {
            gate::end();
            return Err(self.is_recorded());
        }
        if let Some(wanted) = &running.wanted {
            let _ = wanted.send(());
        }
        let sent = self.receive(py, running);
        let event = match sent {
            Ok(Ok(event)) => Ok(event),
            Ok(Err(ended)) => {
                *held = None;
                gate::end();
                return match ended {
                    None => Ok(None),
                    Some(reason) => {
                        Err(raised(Kind::Value, format!("{}: {reason}", self.operation)))
                    }
                };
            }
            Err(error) => {
                // What is under way ends first, as the device is the thread's so long.
                let ending = held.take();
                py.detach(move || drop(ending));
                Err(error)
            }
        };
        gate::end();
        event.map(|event| {
            Some(match event {
                Event::Bytes(number, bytes) => {
                    (number, Some(PyBytes::new(py, &bytes).into_any()), None)
                }
                Event::Token(number, token) => {
                    let token = token.into_pyobject(py);
                    (number, token.ok().map(Bound::into_any), None)
                }
                Event::End(number, reason) => (number, None, reason),
            })
        })
    }

    /// Ends the stream where it is.
    fn close(&self, py: Python<'_>) {
        let ending = self
            .running
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take();
        py.detach(move || drop(ending));
    }
}
