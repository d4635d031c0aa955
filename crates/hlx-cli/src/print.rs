//! What the program prints: everything for standard output and standard error goes through here.
//!
//! Standard output may be closed (`hlx report run | head -1`) or full. Each write returns what failed, and
//! [`is_closed`] tells the first, which is not an error, from the second.

use std::fmt;
use std::io::{self, ErrorKind, IsTerminal, Write};
use std::sync::OnceLock;

use anyhow::Result;
use hlx_core::{PrintableStream, printable_lines};
use hlx_train::ranks::one_line;

use crate::terminal::Stderr;

/// Prints a line on standard output, as `println!` does, and returns what fails.
macro_rules! say {
    ($($argument:tt)*) => {
        $crate::print::line(format_args!($($argument)*))
    };
}
pub(crate) use say;

/// Standard output took no more.
#[derive(Debug)]
struct Failed(io::Error);

impl fmt::Display for Failed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "standard output: {}", self.0)
    }
}

impl std::error::Error for Failed {}

/// Whether an error is that of standard output.
pub fn is_of_output(error: &anyhow::Error) -> bool {
    error.is::<Failed>()
}

/// Whether an error says that the reader of what a verb writes is gone: it has all that it wanted.
pub fn is_closed(error: &anyhow::Error) -> bool {
    let is_closed = |error: &io::Error| error.kind() == ErrorKind::BrokenPipe;
    // A file that is named may be a pipe, too.
    error
        .chain()
        .any(|cause| match cause.downcast_ref::<Failed>() {
            Some(Failed(error)) => is_closed(error),
            None => cause.downcast_ref::<io::Error>().is_some_and(is_closed),
        })
}

/// Takes a closed standard output for success: what was done besides printing stands.
pub fn or_closed(printed: Result<()>) -> Result<()> {
    printed.or_else(|error| match is_closed(&error) {
        true => Ok(()),
        false => Err(error),
    })
}

/// Prints a line; on a terminal its control characters are escaped.
///
/// # Errors
/// Standard output takes no more.
pub fn line(line: fmt::Arguments<'_>) -> Result<()> {
    text(&format!("{line}\n"))
}

/// Prints a text as [`line`] does, and shows it at once.
///
/// # Errors
/// Standard output takes no more.
pub fn text(text: &str) -> Result<()> {
    match is_terminal() {
        true => bytes(printable_lines(text).as_bytes()),
        false => bytes(text.as_bytes()),
    }
}

/// Prints bytes as they are, and shows them at once.
///
/// # Errors
/// Standard output takes no more.
pub fn bytes(bytes: &[u8]) -> Result<()> {
    let mut out = io::stdout().lock();
    let written = out.write_all(bytes).and_then(|()| out.flush());
    written.map_err(|error| Failed(error).into())
}

/// Has `write` write to standard output.
///
/// # Errors
/// That of `write`, and standard output that takes no more.
pub fn through<T>(write: impl FnOnce(&mut Watched<'_>) -> Result<T>) -> Result<T> {
    let mut out = Watched {
        out: io::stdout().lock(),
        failed: None,
    };
    let written = write(&mut out);
    let flushed = out.out.flush();
    match out.failed.or(flushed.err()) {
        Some(error) => Err(Failed(error).into()),
        None => written,
    }
}

/// Standard output, which remembers why it took no more.
pub struct Watched<'a> {
    out: io::StdoutLock<'a>,
    failed: Option<io::Error>,
}

impl Write for Watched<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.out.write(bytes).map_err(|error| {
            let again = io::Error::from(error.kind());
            // An interrupted write is tried once more by whoever writes.
            if error.kind() != ErrorKind::Interrupted {
                self.failed = Some(error);
            }
            again
        })
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}

/// The text of a model, piece by piece: the bytes themselves, but on a terminal, where an escape sequence of
/// the model would be carried out, control characters are escaped.
#[derive(Default)]
pub struct Streamed(PrintableStream);

impl Streamed {
    /// Prints the next bytes.
    ///
    /// # Errors
    /// Standard output takes no more.
    pub fn print(&mut self, next: &[u8]) -> Result<()> {
        match is_terminal() {
            true => bytes(self.0.next(next).as_bytes()),
            false => bytes(next),
        }
    }
}

fn is_terminal() -> bool {
    static IS_TERMINAL: OnceLock<bool> = OnceLock::new();
    *IS_TERMINAL.get_or_init(|| io::stdout().is_terminal())
}

/// Prints an error in one line, by one write: several ranks may print at once.
pub fn error(error: &anyhow::Error) {
    crate::loading::clear();
    on_stderr(&format!("error: {}\n", one_line(error)));
}

/// Prints lines on standard error, with their control characters escaped; if that is closed, nobody is left
/// to be told.
pub fn on_stderr(lines: &str) {
    on_stderr_as_is(&printable_lines(lines));
}

/// As [`on_stderr`], of lines that are printable, or have colours of the program's own.
pub fn on_stderr_as_is(lines: &str) {
    let _ = Stderr.write_all(lines.as_bytes());
}
