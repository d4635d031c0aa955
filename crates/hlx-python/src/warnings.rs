//! Warnings of the library's crates while a run is trained or verified, a file read or a text prepared: lines that
//! become Python's own warnings.

use std::ffi::CString;
use std::fmt::{Debug, Write as _};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, Once, PoisonError};

use pyo3::exceptions::PyUserWarning;
use pyo3::prelude::*;
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Level, Metadata, Subscriber};

use crate::keywords::in_keywords;

/// Lines that wait for Python; more than this many are left out, and counted.
const MOST: usize = 256;

static LINES: Mutex<Vec<String>> = Mutex::new(Vec::new());
/// How many runs wait for lines.
static LISTENING: AtomicUsize = AtomicUsize::new(0);

/// While one exists, warnings are kept for [`take`].
pub struct Listening;

impl Listening {
    /// Begins to keep them.
    pub fn begin() -> Self {
        static START: Once = Once::new();
        START.call_once(|| {
            // Another library of the process may have set one; it gets the lines then.
            let _ = tracing::subscriber::set_global_default(Keeper);
        });
        LISTENING.fetch_add(1, Ordering::SeqCst);
        Self
    }
}

impl Drop for Listening {
    fn drop(&mut self) {
        LISTENING.fetch_sub(1, Ordering::SeqCst);
    }
}

/// The lines since the last call.
pub fn take() -> Vec<String> {
    std::mem::take(&mut *LINES.lock().unwrap_or_else(PoisonError::into_inner))
}

/// Runs an operation, and warns of what it logs as of the line of Python that called the package's function.
///
/// # Errors
/// A warning that Python's filters make an error.
pub fn warned<T>(py: Python<'_>, operation: impl FnOnce() -> T) -> PyResult<T> {
    let listening = Listening::begin();
    let made = operation();
    drop(listening);
    for line in take() {
        // A line of a file may hold a zero byte.
        let line = CString::new(in_keywords(&line).replace('\0', "\\0"))?;
        PyErr::warn(py, &py.get_type::<PyUserWarning>(), &line, 2)?;
    }
    Ok(made)
}

/// Keeps warnings and errors.
struct Keeper;

impl Subscriber for Keeper {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        *metadata.level() <= Level::WARN
    }

    fn new_span(&self, _span: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _span: &Id, _values: &Record<'_>) {}

    fn record_follows_from(&self, _span: &Id, _follows: &Id) {}

    fn event(&self, event: &Event<'_>) {
        if LISTENING.load(Ordering::SeqCst) == 0 {
            return;
        }
        let mut line = Line::default();
        event.record(&mut line);
        let mut lines = LINES.lock().unwrap_or_else(PoisonError::into_inner);
        if lines.len() < MOST {
            lines.push(line.0);
        }
    }

    fn enter(&self, _span: &Id) {}

    fn exit(&self, _span: &Id) {}
}

/// An event as a line: its message, and its fields behind it.
#[derive(Default)]
struct Line(String);

impl Visit for Line {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        // Writing to a text does not fail.
        let _ = match field.name() {
            "message" => write!(self.0, "{value:?}"),
            name => write!(self.0, " {name}={value:?}"),
        };
    }
}
