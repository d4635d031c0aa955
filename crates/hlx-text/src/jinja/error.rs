//! What is wrong with a template, and in which line.

use std::fmt;

/// The result of a part of the engine.
pub(crate) type Result<T, E = Error> = std::result::Result<T, E>;

/// Characters that an error has: a template may raise any text, and any name may be unknown.
const MAX_CHARS: usize = 500;

/// An error of a template.
#[derive(Debug)]
pub(crate) struct Error {
    message: String,
    line: Option<usize>,
}

impl Error {
    /// An error whose line is not known yet.
    pub fn new(message: impl Into<String>) -> Self {
        let mut message = message.into();
        if let Some((end, _)) = message.char_indices().nth(MAX_CHARS) {
            message.truncate(end);
            message.push_str("..");
        }
        Self {
            message,
            line: None,
        }
    }

    /// A fault of syntax.
    pub fn syntax(line: usize, message: impl fmt::Display) -> Self {
        Self::new(format!("syntax error: {message}")).at(line)
    }

    /// States the line, where none is stated.
    pub fn at(mut self, line: usize) -> Self {
        self.line.get_or_insert(line);
        self
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.line {
            Some(line) => write!(f, "line {line}: {}", self.message),
            None => f.write_str(&self.message),
        }
    }
}

/// An error with a message, as `format!` makes it.
macro_rules! fault {
    ($($argument:tt)*) => {
        $crate::jinja::error::Error::new(format!($($argument)*))
    };
}
pub(crate) use fault;
