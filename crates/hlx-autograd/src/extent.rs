//! The extents that callers give for a shape, one of which may be left open as -1.

use std::fmt::Debug;

use hlx_core::sizes;

use crate::{AutogradError, Result};

/// A number of a shape: `usize`, or a signed integer, whose -1 leaves the extent open.
pub trait Extent: Copy + Debug {
    /// The extent; `None` for -1. Any other negative number is an error: it is returned as it is.
    ///
    /// # Errors
    /// The number, if it is below -1.
    fn known(self) -> Result<Option<usize>, i64>;
}

impl Extent for usize {
    fn known(self) -> Result<Option<usize>, i64> {
        Ok(Some(self))
    }
}

macro_rules! signed {
    ($($type:ty),+) => {
        $(impl Extent for $type {
            fn known(self) -> Result<Option<usize>, i64> {
                match self {
                    -1 => Ok(None),
                    extent => usize::try_from(extent).map(Some).map_err(|_| extent as i64),
                }
            }
        })+
    };
}
signed!(i32, i64, isize);

/// The extents of a shape; `open` gives the extent at a place where -1 stands.
pub(crate) fn extents<E: Extent>(
    op: &'static str,
    shape: &[E],
    open: impl Fn(usize) -> Result<usize, String>,
) -> Result<Vec<usize>> {
    let extent = |(place, extent): (usize, &E)| match extent.known() {
        Ok(Some(extent)) => Ok(extent),
        Ok(None) => open(place),
        Err(extent) => Err(format!("{extent} is no extent")),
    };
    let extents: Result<_, String> = shape.iter().enumerate().map(extent).collect();
    extents.map_err(|reason| AutogradError::Argument {
        op,
        reason: format!("shape {shape:?}: {reason}"),
    })
}

/// The extents of a shape of `n_elements` elements, where -1 stands for what the other extents leave.
pub(crate) fn of_elements<E: Extent>(
    op: &'static str,
    shape: &[E],
    n_elements: usize,
) -> Result<Vec<usize>> {
    let known = || {
        shape
            .iter()
            .filter_map(|extent| extent.known().ok().flatten())
    };
    let n_open = shape
        .iter()
        .filter(|extent| extent.known() == Ok(None))
        .count();
    extents(op, shape, |_| {
        if n_open > 1 {
            return Err(format!("{n_open} extents are -1, expected at most one"));
        }
        let rest = sizes::checked_product(known()).unwrap_or(0);
        match n_elements.checked_rem(rest) {
            Some(0) => Ok(n_elements / rest),
            _ => Err(format!(
                "{n_elements} elements are no multiple of the other extents"
            )),
        }
    })
}

#[cfg(test)]
mod tests {
    use crate::ops::test_support::{input, message};

    #[test]
    fn one_extent_may_be_left_open() -> crate::Result<()> {
        let x = input(1, &[2, 3, 4]);
        assert_eq!(x.reshape(&[-1])?.shape(), [24]);
        assert_eq!(x.reshape(&[6, -1])?.shape(), [6, 4]);
        assert_eq!(x.reshape(&[x.shape()[0] as isize, -1])?.shape(), [2, 12]);
        assert_eq!(x.view(&[-1, 8])?.shape(), [3, 8]);
        assert_eq!(x.unflatten(-1, &[2, -1])?.shape(), [2, 3, 2, 2]);
        assert_eq!(x.narrow(0, 0, 0)?.reshape(&[-1, 4])?.shape(), [0, 4]);
        assert_eq!(x.expand(&[5, -1, -1, -1])?.shape(), [5, 2, 3, 4]);
        Ok(())
    }

    #[test]
    fn what_leaves_the_shape_open_is_an_error() {
        let x = input(1, &[2, 3]);
        for (result, reason) in [
            (
                x.reshape(&[-1, -1]),
                "reshape: shape [-1, -1]: 2 extents are -1, expected at most one",
            ),
            (
                x.reshape(&[4, -1]),
                "reshape: shape [4, -1]: 6 elements are no multiple of the other extents",
            ),
            (
                x.view(&[0, -1]),
                "view: shape [0, -1]: 6 elements are no multiple of the other extents",
            ),
            (
                x.reshape(&[-2, 3]),
                "reshape: shape [-2, 3]: -2 is no extent",
            ),
            (
                x.unflatten(1, &[2, -1]),
                "unflatten: shape [2, -1]: 3 elements are no multiple of the other extents",
            ),
            (
                x.unflatten(1, &[2, 2]),
                "unflatten: sizes [2, 2] are 4 elements, dimension 1 has 3",
            ),
            (
                x.expand(&[-1, 2, 3]),
                "expand: shape [-1, 2, 3]: -1 stands for no dimension of [2, 3]",
            ),
        ] {
            assert_eq!(message(result), reason);
        }
    }
}
