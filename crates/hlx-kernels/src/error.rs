//! What can go wrong in a kernel's launcher.

use hlx_core::{Arithmetic, Buffer, CoreError, DType, sizes};
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
    /// An argument of a device's handle whose products are computed in another arithmetic.
    #[error("{operation}: {argument} is of the {found} arithmetic, expected {expected}")]
    Arithmetic {
        /// The operation.
        operation: &'static str,
        /// The argument.
        argument: &'static str,
        /// Its arithmetic.
        found: Arithmetic,
        /// That of the other operands.
        expected: Arithmetic,
    },
    /// The device or its memory.
    #[error(transparent)]
    Core(#[from] CoreError),
}

/// What launchers return.
pub type Result<T, E = KernelError> = std::result::Result<T, E>;

impl KernelError {
    /// The error of a launcher, from the reason.
    pub(crate) fn argument(operation: &'static str) -> impl Fn(String) -> Self + Copy {
        move |reason| Self::Argument { operation, reason }
    }
}

/// How many elements an argument is to have: a number that was checked, or extents to multiply.
pub trait Expected: Copy {
    /// The number; `None` if it is more than memory has.
    fn elements(self) -> Option<usize>;

    /// The extents, for errors.
    fn extents(&self) -> &[usize];
}

impl Expected for usize {
    fn elements(self) -> Option<usize> {
        Some(self)
    }

    fn extents(&self) -> &[usize] {
        std::slice::from_ref(self)
    }
}

impl Expected for &[usize] {
    fn elements(self) -> Option<usize> {
        sizes::checked_elements(self)
    }

    fn extents(&self) -> &[usize] {
        self
    }
}

impl<const N: usize> Expected for [usize; N] {
    fn elements(self) -> Option<usize> {
        sizes::checked_elements(&self)
    }

    fn extents(&self) -> &[usize] {
        self
    }
}

/// Checks a buffer's length. Extents that come from the caller are given as an array (`[rows, cols]`) and never
/// multiplied before: a product that wraps would be the length of a smaller buffer. An
/// argument that is left out passes.
///
/// # Errors
/// [`KernelError::Length`] for another length, [`KernelError::Argument`] for extents that no memory holds.
pub fn check_len<'a>(
    operation: &'static str,
    argument: &'static str,
    buffer: impl Into<Option<&'a Buffer>>,
    expected: impl Expected,
) -> Result<()> {
    let Some(found) = buffer.into().map(Buffer::len) else {
        return Ok(());
    };
    let expected = checked_len(operation, argument, expected)?;
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

/// Checks a buffer's type.
///
/// # Errors
/// [`KernelError::Argument`] for another type.
pub(crate) fn check_dtype(
    operation: &'static str,
    argument: &str,
    buffer: &Buffer,
    expected: DType,
) -> Result<()> {
    let found = buffer.dtype();
    check_that!(operation, found == expected => "{argument} has dtype {found}, expected {expected}")
}

/// Checks a buffer's type and length.
///
/// # Errors
/// As [`check_dtype`] and [`check_len`].
pub(crate) fn check_typed(
    operation: &'static str,
    argument: &'static str,
    buffer: &Buffer,
    expected: DType,
    len: impl Expected,
) -> Result<()> {
    check_dtype(operation, argument, buffer, expected)?;
    check_len(operation, argument, buffer, len)
}

/// Multiplies the extents of an argument.
///
/// # Errors
/// [`KernelError::Argument`] for extents that no memory holds.
pub fn checked_len(
    operation: &'static str,
    argument: &'static str,
    expected: impl Expected,
) -> Result<usize> {
    expected.elements().ok_or_else(|| {
        let extents = expected.extents();
        KernelError::argument(operation)(format!(
            "{argument} of extents {extents:?} has more elements than memory holds"
        ))
    })
}

/// Checks sizes that are multiplied behind this check, all or some of them: no such product wraps then, nor the
/// thousandfold of it.
///
/// # Errors
/// [`KernelError::Argument`] if a shape of these extents is one that no memory holds.
pub fn check_sizes(operation: &'static str, extents: &[usize]) -> Result<()> {
    let fits = sizes::checked_elements(extents).is_some();
    check_that!(operation, fits => "extents {extents:?} have more elements than memory holds")
}

/// Checks that 32 bits count an argument's elements.
pub(crate) fn check_indexable(
    operation: &'static str,
    argument: &str,
    elements: usize,
) -> Result<()> {
    check_that!(operation, u32::try_from(elements).is_ok() =>
        "{argument} has {elements} elements, expected at most {most}", most = u32::MAX)
}

/// Checks a condition on an argument's value.
pub fn check_that(
    operation: &'static str,
    holds: bool,
    reason: impl FnOnce() -> String,
) -> Result<()> {
    match holds {
        true => Ok(()),
        false => Err(KernelError::argument(operation)(reason())),
    }
}
