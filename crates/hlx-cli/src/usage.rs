//! What the command line's parser prints: help and the version on standard output, and what is wrong with an
//! argument on standard error.

use std::io::{IsTerminal, stderr, stdout};
use std::process::ExitCode;

use clap::Error;
use clap::error::ContextValue;
use hlx_core::{printable, printable_lines};

use crate::print;

/// The exit status of a wrong command line.
pub const STATUS: u8 = 2;

/// Prints what the parser says instead of returning arguments, and returns the exit status.
pub fn print(mut error: Error) -> ExitCode {
    if error.use_stderr() {
        print::on_stderr_as_is(&message(&mut error));
        return ExitCode::from(STATUS);
    }
    let text = match stdout().is_terminal() {
        true => error.render().ansi().to_string(),
        false => error.render().to_string(),
    };
    match print::or_closed(print::bytes(text.as_bytes())) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            print::error(&error);
            ExitCode::FAILURE
        }
    }
}

/// What is wrong, with the arguments' control characters escaped.
fn message(error: &mut Error) -> String {
    let context: Vec<_> = error
        .context()
        .map(|(kind, value)| (kind, value.clone()))
        .collect();
    for (kind, value) in context {
        let value = match value {
            ContextValue::String(text) => ContextValue::String(printable(&text).into_owned()),
            ContextValue::Strings(texts) => {
                let texts = texts.iter().map(|text| printable(text).into_owned());
                ContextValue::Strings(texts.collect())
            }
            other => other,
        };
        error.insert(kind, value);
    }
    let plain = error.render().to_string();
    // The parser of a value may have an argument in its own message.
    match printable_lines(&plain) == plain && stderr().is_terminal() {
        true => error.render().ansi().to_string(),
        false => printable_lines(&plain).into_owned(),
    }
}
