//! The sizes of products over integers, where their results lie, and groups whose sizes the device alone knows.

use hlx_core::Buffer;

use super::prepare::Preparation;
use super::specification::Digits;
use crate::error::{Result, check_sizes};

/// Products `C[i, m, n] = sum over k of A[i, m, k] B[i, n, k]` of prepared operands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IntegerProduct {
    /// Products side by side.
    pub batch: usize,
    /// Rows of an A and of a C.
    pub m: usize,
    /// Rows of a B, columns of a C.
    pub n: usize,
    /// Terms of a sum.
    pub k: usize,
    /// C is added to what it holds.
    pub accumulate: bool,
    /// Different Bs and biases, where product i takes those of i modulo this; `None`: each product has a B of its own.
    pub groups: Option<usize>,
    /// C is stored as its transpose, `[batch, N, M]`: the operand with two digits is the right one.
    pub transposed: bool,
    /// Where C is a part of its buffer: its first element, and the elements from one of its last rows to the next.
    pub within: Option<[usize; 2]>,
}

impl IntegerProduct {
    /// One product, which overwrites C.
    pub const fn new(m: usize, n: usize, k: usize) -> Self {
        Self {
            batch: 1,
            m,
            n,
            k,
            accumulate: false,
            groups: None,
            transposed: false,
            within: None,
        }
    }

    /// Checks the sizes: behind this no number of elements wraps.
    ///
    /// # Errors
    /// [`KernelError::Argument`](crate::KernelError::Argument) for sizes that no memory holds.
    pub(super) fn check_sizes(&self, operation: &'static str) -> Result<()> {
        check_sizes(operation, &[self.batch, self.m, self.n])?;
        check_sizes(operation, &[self.n_groups(), self.n, self.k])?;
        check_sizes(operation, &[self.batch, self.m, self.k])?;
        let [first, row] = self.place();
        check_sizes(operation, &[self.batch, self.m.max(self.n), row])?;
        check_sizes(operation, &[first])
    }

    /// Elements of a row of digits.
    pub(super) fn padded(&self) -> usize {
        Preparation::of_rows(1, self.k, Digits::One).padded()
    }

    /// Different Bs.
    pub(super) fn n_groups(&self) -> usize {
        self.groups.unwrap_or(self.batch).max(1)
    }

    /// The first element of C, and the elements from row to row.
    pub(super) fn place(&self) -> [usize; 2] {
        self.within
            .unwrap_or([0, if self.transposed { self.m } else { self.n }])
    }

    /// Elements of C's buffer up to the last one of C.
    pub(super) fn reach(&self) -> usize {
        let [first, row] = self.place();
        let [rows, columns] = match self.transposed {
            true => [self.batch * self.n, self.m],
            false => [self.batch * self.m, self.n],
        };
        first + rows.saturating_sub(1) * row + columns
    }
}

/// The rows or the terms of products that the device alone knows, by bounds: u32, those of group g from the g-th to the
/// next.
#[derive(Clone, Copy)]
pub(crate) struct Bounds<'a> {
    pub buffer: &'a Buffer,
    pub of: Bounded,
    /// The first group, and how many groups there are: by rows from the first on, by terms in all.
    pub groups: [usize; 2],
}

/// What bounds are of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Bounded {
    /// Rows of A: those of a group are multiplied with its own B, of as many as there are groups. Other rows of C stay.
    Rows,
    /// Terms: product i sums over those of group `first + i` alone, and each group has exponents of its own. Its digits
    /// begin at 64 (bound / 64 + g), the division rounded down.
    Terms,
}
