//! What an operand's rows are, and how they are cut.

use hlx_core::Device;

use super::super::specification::Digits;
use super::super::{GRANULE, LONGEST, PIECE};
use crate::error::{Result, check_sizes};
use crate::tuning::{DigitLayout, KernelTuning};

/// What an operand's rows are, over which a product sums: each of their pieces has an exponent of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Preparation {
    /// Matrices of as many rows each.
    pub outer: usize,
    /// Rows of all of them.
    pub rows: usize,
    /// Elements of a row.
    pub k: usize,
    /// The rows are the matrices' columns.
    pub of_columns: bool,
    /// The integers' bits.
    pub n_digits: Digits,
    /// Terms that share an exponent, a multiple of 64.
    pub piece: usize,
    /// Elements from one matrix to the next.
    pub stride: usize,
    /// Where the digits lie.
    pub layout: DigitLayout,
}

/// Rows of a piece of [`DigitLayout::Pieces`].
const PIECE_ROWS: usize = 16;

impl Preparation {
    /// The rows of a matrix \[rows, k\].
    pub const fn of_rows(rows: usize, k: usize, n_digits: Digits) -> Self {
        Self {
            outer: 1,
            rows,
            k,
            of_columns: false,
            n_digits,
            piece: PIECE,
            stride: rows.saturating_mul(k),
            layout: DigitLayout::Rows,
        }
    }

    /// The columns of matrices \[outer, k, columns\]: `outer * columns` rows of `k`.
    pub const fn of_columns(outer: usize, k: usize, columns: usize, n_digits: Digits) -> Self {
        Self {
            outer,
            rows: outer.saturating_mul(columns),
            k,
            of_columns: true,
            n_digits,
            piece: PIECE,
            stride: k.saturating_mul(columns),
            layout: DigitLayout::Rows,
        }
    }

    /// One exponent per row, which is a column of a matrix and has at most [`LONGEST`] terms.
    #[must_use]
    pub const fn whole(self) -> Self {
        Self {
            piece: LONGEST,
            ..self
        }
    }

    /// With the digits where the products of a device load them fastest.
    #[must_use]
    pub fn laid_for(self, device: &Device) -> Self {
        let layout = match device.is_cpu() {
            true => DigitLayout::Rows,
            false => KernelTuning::of(device).products.digits,
        };
        Self { layout, ..self }
    }

    /// Whether it has the same digits as another one, wherever either's lie.
    pub(crate) fn is_like(&self, other: &Self) -> bool {
        let layout = self.layout;
        *self == Self { layout, ..*other }
    }

    /// Rows that the digits have room for.
    const fn rows_laid(&self) -> usize {
        match self.layout {
            DigitLayout::Rows => self.rows,
            DigitLayout::Pieces => self.rows.div_ceil(PIECE_ROWS) * PIECE_ROWS,
        }
    }

    /// Whether the digits lie in pieces, as a word of the shaders' constants.
    pub(crate) fn in_pieces(&self) -> u32 {
        u32::from(self.layout == DigitLayout::Pieces)
    }

    /// Checks the sizes: behind this no number of elements wraps. An operand is made by way of this alone.
    ///
    /// # Errors
    /// [`KernelError::Argument`](crate::KernelError::Argument) for sizes that no memory holds.
    pub(super) fn check_sizes(&self, operation: &'static str) -> Result<()> {
        check_sizes(operation, &[self.rows, self.k])?;
        check_sizes(operation, &[self.outer, self.columns(), self.k])?;
        let rows = self.rows.saturating_add(PIECE_ROWS - 1);
        check_sizes(operation, &[rows, self.k.div_ceil(GRANULE), GRANULE])?;
        check_sizes(operation, &[self.outer, self.stride])
    }

    /// Checks that the device has digits in this layout.
    ///
    /// # Errors
    /// [`KernelError::Argument`](crate::KernelError::Argument) for pieces on the CPU device.
    pub(super) fn check_layout(&self, operation: &'static str, device: &Device) -> Result<()> {
        check_that!(operation, !device.is_cpu() || self.layout == DigitLayout::Rows =>
            "digits in pieces are for Vulkan devices")
    }

    /// Elements of a row of digits.
    pub const fn padded(&self) -> usize {
        self.k.div_ceil(GRANULE).saturating_mul(GRANULE)
    }

    /// Elements of the digits, i8.
    pub const fn digits_len(&self) -> usize {
        self.n_digits.planes() * self.rows_laid() * self.padded()
    }

    /// Pieces of a row.
    pub const fn pieces(&self) -> usize {
        let pieces = self.k.div_ceil(self.piece);
        if pieces == 0 { 1 } else { pieces }
    }

    /// Exponents, i32: `[rows, pieces]`.
    pub const fn exponents_len(&self) -> usize {
        self.rows * self.pieces()
    }

    /// Rows of a matrix, which are its columns if those are what is prepared.
    pub(super) fn columns(&self) -> usize {
        self.rows / self.outer.max(1)
    }

    /// Elements of x.
    pub(super) fn reach(&self) -> usize {
        match self.outer {
            0 => 0,
            outer => (outer - 1) * self.stride + self.columns() * self.k,
        }
    }

    /// Where x's row begins.
    pub(super) fn row_at(&self, row: usize) -> usize {
        let of_matrix = self.columns().max(1);
        row / of_matrix * self.stride + row % of_matrix * self.k
    }
}
