//! The errors of conversions and files.

use std::fmt::Display;
use std::path::Path;

use hlx_autograd::AutogradError;
use thiserror::Error;

/// An error of a conversion or a file.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum IoError {
    /// A file cannot be read or written, or is not of the format.
    #[error("{operation}: {file}: {reason}")]
    File {
        /// The function.
        operation: &'static str,
        /// The file.
        file: String,
        /// What was found.
        reason: String,
    },
    /// An element is not a value of the type that a tensor would store.
    #[error("{operation}: element {place} of {name} is {value}, which {stored} does not hold")]
    Range {
        /// The function.
        operation: &'static str,
        /// The array or tensor.
        name: String,
        /// The element's place in the order of storage.
        place: usize,
        /// The element.
        value: String,
        /// The type of the tensor's elements.
        stored: &'static str,
    },
    /// An array or a tensor cannot be converted.
    #[error("{operation}: {reason}")]
    Argument {
        /// The function.
        operation: &'static str,
        /// What was found and what was expected.
        reason: String,
    },
    /// A tensor cannot be made or read.
    #[error(transparent)]
    Tensor(#[from] AutogradError),
}

impl IoError {
    pub(crate) fn file(operation: &'static str, path: &Path, reason: impl Display) -> Self {
        Self::File {
            operation,
            file: path.display().to_string(),
            reason: reason.to_string(),
        }
    }

    pub(crate) fn argument(operation: &'static str, reason: impl Into<String>) -> Self {
        Self::Argument {
            operation,
            reason: reason.into(),
        }
    }
}
