//! Products whose rows or terms the device alone knows.

use hlx_core::{Buffer, Device};

use super::{Call, End, IntegerProduct, NAME, padded};
use crate::KernelError;
use crate::error::{check_len, check_sizes, check_that};
use crate::product::formats::Format;
use crate::product::quantised::Prepared;

/// The rows or the terms of products that the device alone knows, by bounds: u32, those of group g from the g-th to the
/// next.
#[derive(Clone, Copy)]
pub(crate) struct Bounds<'a> {
    pub buffer: &'a Buffer,
    pub of: Bounded,
    /// The first group, and how many groups there are: by rows from the first on, by terms in all.
    pub groups: [usize; 2],
}

impl Bounds<'_> {
    /// Whether every row of C is of a group.
    pub(super) fn has_all_rows(&self) -> bool {
        self.of == Bounded::Terms || self.buffer.len() == self.groups[1] + 1
    }
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

/// Computes products whose rows or terms are known on the device alone. By rows, `shape` has all rows of A as its M; by
/// terms, its K is the length of the operands' rows of digits.
///
/// # Errors
/// If a buffer has another type or length, or the launch fails.
pub(crate) fn integer_product_by(
    device: &Device,
    bounds: Bounds<'_>,
    [a, b]: [&Prepared; 2],
    c: &Buffer,
    shape: &IntegerProduct,
) -> Result<(), KernelError> {
    shape.check_sizes(NAME)?;
    let [first, groups] = bounds.groups;
    check_sizes(NAME, &[groups, shape.n])?;
    let last = match bounds.of {
        Bounded::Rows => first + groups,
        Bounded::Terms => groups.max(first + shape.batch),
    };
    check_that(NAME, bounds.buffer.len() > last, || {
        let found = bounds.buffer.len();
        format!("{found} bounds, expected more than {last}")
    })?;
    let (b_rows, of_one) = match bounds.of {
        Bounded::Rows => (groups * shape.n, true),
        Bounded::Terms => (shape.n, false),
    };
    for (operand, rows) in [(a, shape.m), (b, b_rows)] {
        let fits = operand.of.rows() == rows && operand.of.padded() == padded(shape);
        let pieces = if of_one { operand.of.pieces() } else { groups };
        let has = operand.exponents.len() == rows * pieces;
        check_that(NAME, fits && has, || {
            format!("{:?}, expected {rows} rows for {shape:?}", operand.of)
        })?;
    }
    check_len(NAME, "c", c, shape.reach())?;
    if c.is_empty() {
        return Ok(());
    }
    let one_piece = a.of.pieces() == 1 || !of_one;
    check_that(NAME, one_piece || !shape.accumulate, || {
        "products by rows do not accumulate".to_owned()
    })?;
    let end = match shape.accumulate {
        true => End::Stored,
        false => End::Nothing,
    };
    let call = Call {
        operands: [a, b],
        bias: None,
        bounds: Some(bounds),
        shape: *shape,
    };
    let format = Format::of_pair([a, b].map(|operand| operand.of.width()));
    (format.launch)(&call, device, c, end)
}
