//! What `hlx-bench` prints: tables on standard output, progress on standard error, neither of which panics.
//!
//! A measurement whose standard output is closed ends with status 0, as that of `hlx-bench | head -1`; one whose
//! standard output is full ends with a line and status 1. There is nothing to save.

use std::fmt::Arguments;
use std::io::{ErrorKind, Write, stderr, stdout};
use std::process::exit;

use hlx_core::printable_lines;

/// Prints a line on standard output.
#[macro_export]
macro_rules! say {
    () => {
        $crate::print::on_stdout(format_args!("\n"))
    };
    ($($argument:tt)*) => {
        $crate::print::on_stdout(format_args!("{}\n", format_args!($($argument)*)))
    };
}

/// Prints a line on standard error.
#[macro_export]
macro_rules! note {
    () => {
        $crate::print::on_stderr(format_args!("\n"))
    };
    ($($argument:tt)*) => {
        $crate::print::on_stderr(format_args!("{}\n", format_args!($($argument)*)))
    };
}

/// Prints a text on standard output, and ends the program where that takes no more.
pub fn on_stdout(text: Arguments<'_>) {
    let mut out = stdout().lock();
    let printed = out
        .write_all(text.to_string().as_bytes())
        .and_then(|()| out.flush());
    match printed {
        Ok(()) => {}
        Err(error) if error.kind() == ErrorKind::BrokenPipe => exit(0),
        Err(error) => {
            on_stderr(format_args!("error: standard output: {error}\n"));
            exit(1);
        }
    }
}

/// Prints a text on standard error, with its control characters escaped; if that is closed, nobody is left to
/// be told.
pub fn on_stderr(text: Arguments<'_>) {
    let _ = stderr().write_all(printable_lines(&text.to_string()).as_bytes());
}

/// Prints a text in the place of the line that standard error ends with.
pub fn over_stderr(text: Arguments<'_>) {
    let _ = stderr().write_all(b"\r");
    on_stderr(text);
}
