//! What can go wrong with data: files, arguments, single samples.

use std::io::ErrorKind;
use std::path::Path;

use hlx_autograd::AutogradError;
use hlx_core::CoreError;
use thiserror::Error;

/// Any error of a user's data set or transform.
pub type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// An error of a data set, a loader or a data file.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum DataError {
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
    /// A sample could not be read or transformed.
    #[error("sample {index}: {reason}")]
    Sample {
        /// Its index in the data set.
        index: usize,
        /// The error of the data set or of the transform.
        reason: BoxError,
    },
    /// A data set, a transform or the stacking of samples panicked on the thread that loads.
    #[error("batch {batch}: a worker thread panicked{}: {message}", at_sample(*.sample))]
    Panic {
        /// The batch of the epoch that it was loading.
        batch: u64,
        /// The index in the data set of the sample that it was loading; `None` where it was stacking them.
        sample: Option<usize>,
        /// The panic's message.
        message: String,
    },
    /// A tensor refused its arguments.
    #[error(transparent)]
    Autograd(#[from] AutogradError),
    /// The device failed.
    #[error(transparent)]
    Core(#[from] CoreError),
}

/// Where a panic happened, for the middle of a line.
fn at_sample(sample: Option<usize>) -> String {
    sample.map_or(String::new(), |index| format!(" at sample {index}"))
}

impl DataError {
    pub(crate) fn argument(op: &'static str, reason: impl Into<String>) -> Self {
        let reason = reason.into();
        Self::Argument { op, reason }
    }

    pub(crate) fn file(path: &Path, reason: impl ToString) -> Self {
        Self::File {
            path: path.display().to_string(),
            reason: reason.to_string(),
        }
    }

    /// Of a folder in which files were not found, or of a path that is no folder.
    pub(crate) fn folder(path: &Path, holds: impl ToString) -> Self {
        match path.metadata() {
            Ok(found) if found.is_dir() => Self::file(path, holds),
            Ok(_) => Self::file(path, "is no folder"),
            Err(error) if error.kind() == ErrorKind::NotFound => Self::file(path, "is not there"),
            Err(error) => Self::file(path, error),
        }
    }
}
