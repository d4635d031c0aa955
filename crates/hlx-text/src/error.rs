//! What can go wrong with text: files, arguments, single documents.

use std::path::Path;

use thiserror::Error;

/// An error of a tokenizer, a text, token shards or a batch.
#[derive(Clone, Debug, Error)]
#[non_exhaustive]
pub enum TextError {
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

impl TextError {
    pub(crate) fn argument(op: &'static str, reason: impl ToString) -> Self {
        Self::Argument {
            op,
            reason: one_line(&reason.to_string()),
        }
    }

    pub(crate) fn file(path: &Path, reason: impl ToString) -> Self {
        Self::File {
            path: path.display().to_string(),
            reason: one_line(&reason.to_string()),
        }
    }
}

/// Joins the lines of a message from another library.
fn one_line(message: &str) -> String {
    match message.contains('\n') {
        true => message.split_whitespace().collect::<Vec<_>>().join(" "),
        false => message.to_owned(),
    }
}
