//! What can go wrong in a kernel's launcher.

use hlx_core::{Buffer, CoreError};
use thiserror::Error;

/// An error of a kernel launch.
#[derive(Debug, Clone, Error)]
#[non_exhaustive]
pub enum KernelError {
    /// An argument has the wrong number of elements.
    #[error("{operation}: {argument} has {found} elements, expected {expected}")]
    Length {
        /// The launcher.
        operation: &'static str,
        /// The argument.
        argument: &'static str,
        /// Its elements.
        found: usize,
        /// The elements that the other arguments imply.
        expected: usize,
    },
    /// An argument has a value that the kernel does not take.
    #[error("{operation}: {reason}")]
    Argument {
        /// The launcher.
        operation: &'static str,
        /// What was found and what was expected.
        reason: String,
    },
    /// The device or its memory.
    #[error(transparent)]
    Core(#[from] CoreError),
}

/// Checks a buffer's length.
pub fn check_len(
    operation: &'static str,
    argument: &'static str,
    buffer: &Buffer,
    expected: usize,
) -> Result<(), KernelError> {
    let found = buffer.len();
    if found == expected {
        return Ok(());
    }
    Err(KernelError::Length {
        operation,
        argument,
        found,
        expected,
    })
}

/// Checks a condition on an argument's value.
pub fn check_that(
    operation: &'static str,
    holds: bool,
    reason: impl FnOnce() -> String,
) -> Result<(), KernelError> {
    if holds {
        Ok(())
    } else {
        Err(KernelError::Argument {
            operation,
            reason: reason(),
        })
    }
}
