//! What can go wrong with GGUF files and their values: one line each.

use std::fmt::Display;
use std::path::Path;

use thiserror::Error;

/// An error of a GGUF file, its blocks or its model.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum GgufError {
    /// A file cannot be read or written, or is not what it should be.
    #[error("{path}: {reason}")]
    File {
        /// The file.
        path: String,
        /// What is wrong with it.
        reason: String,
    },
    /// An argument does not fit.
    #[error("{op}: {reason}")]
    Argument {
        /// The operation.
        op: &'static str,
        /// What was found and what was expected.
        reason: String,
    },
}

impl GgufError {
    pub(crate) fn file(path: &Path, reason: impl Display) -> Self {
        Self::File {
            path: path.display().to_string(),
            reason: reason.to_string(),
        }
    }

    pub(crate) fn argument(op: &'static str, reason: impl Display) -> Self {
        Self::Argument {
            op,
            reason: reason.to_string(),
        }
    }
}

/// A name of a file that may hold anything, for a message: its first characters, with control characters escaped.
pub(crate) fn shown(name: &str) -> String {
    const MOST: usize = 80;
    let mut text: String = name.chars().take(MOST).collect();
    if text.len() < name.len() {
        text.push_str("..");
    }
    text.escape_debug().to_string()
}
