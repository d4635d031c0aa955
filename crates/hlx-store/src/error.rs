//! What can go wrong in the content store: each error names the handle or the path.

use std::path::Path;

use thiserror::Error;

use super::{Dtype, Handle};
use hlx_core::CoreError;

/// An error of the content store. No error damages an object that was intact.
#[derive(Debug, Clone, Error)]
#[non_exhaustive]
pub enum StoreError {
    /// Text that is not a handle.
    #[error("`{text}` is no handle: {reason}")]
    BadHandle {
        /// The text.
        text: String,
        /// What was expected and what was found.
        reason: String,
    },
    /// Text that names no dtype.
    #[error("dtype `{found}` is unknown: expected one of {}", Dtype::names())]
    UnknownDtype {
        /// The text.
        found: String,
    },
    /// Text that cannot name a pin.
    #[error(
        "`{name}` cannot name a pin: expected 1 to 128 letters, digits, `.`, `_` or `-`, and no `.` in front"
    )]
    BadPinName {
        /// The text.
        name: String,
    },
    /// No pin of this name.
    #[error("no pin `{name}` in the store {store}")]
    UnknownPin {
        /// The pin's name.
        name: String,
        /// The store's folder.
        store: String,
    },
    /// A shape that does not fit the bytes given with it.
    #[error("a tensor of {dtype} {shape:?}: {reason}")]
    BadShape {
        /// The tensor's dtype.
        dtype: Dtype,
        /// The tensor's shape.
        shape: Vec<usize>,
        /// What was expected and what was found.
        reason: String,
    },
    /// The store holds no object of this handle.
    #[error("{handle} is not in {store}")]
    UnknownHandle {
        /// The handle.
        handle: Handle,
        /// What to call the store: `the store FOLDER`.
        store: String,
    },
    /// The object is of another kind or dtype than requested.
    #[error("{handle} holds {found}, expected {expected}")]
    WrongKind {
        /// The handle.
        handle: Handle,
        /// What was requested.
        expected: String,
        /// What it is.
        found: String,
    },
    /// The object's file is not what its name says: cut short, changed, or no object at all.
    #[error("{handle} is damaged: {path} {reason}")]
    Damaged {
        /// The handle.
        handle: Handle,
        /// The object's file.
        path: String,
        /// What was expected and what was found.
        reason: String,
    },
    /// A file among the objects or pins that the store did not put there.
    #[error("{path} {reason}")]
    Stray {
        /// The file.
        path: String,
        /// Why it does not belong.
        reason: String,
    },
    /// Neither `HLX_STORE` nor the system says where the user's data lies.
    #[error("no folder for the store: set HLX_STORE, or {variables}")]
    NoFolder {
        /// The variables that may name it.
        variables: String,
    },
    /// A file or folder could not be read or written.
    #[error("{during}: {path}: {reason}")]
    Io {
        /// What was being done.
        during: String,
        /// The file or folder.
        path: String,
        /// The system's message.
        reason: String,
    },
    /// A device's buffer could not be read or filled.
    #[error(transparent)]
    Device(#[from] CoreError),
}

impl StoreError {
    /// Returns a function that makes a [`StoreError::Io`], for `map_err`.
    pub(crate) fn io(during: &str, path: &Path) -> impl FnOnce(std::io::Error) -> Self {
        move |error| Self::Io {
            during: during.to_owned(),
            path: path.display().to_string(),
            reason: error.to_string(),
        }
    }

    pub(crate) fn damaged(handle: &Handle, path: &Path, reason: impl Into<String>) -> Self {
        Self::Damaged {
            handle: *handle,
            path: path.display().to_string(),
            reason: reason.into(),
        }
    }
}
