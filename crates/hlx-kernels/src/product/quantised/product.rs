//! Products of prepared operands: what they check, and what follows them.

use hlx_core::{Buffer, DType, Device};

use super::launch::Call;
use super::prepare::{Preparation, Prepared};
use super::shape::{Bounded, Bounds, IntegerProduct};
use crate::Result;
use crate::elementwise::{add_assign, fill};
use crate::error::{check_dtype, check_len, check_sizes};
use crate::product::floats::Epilogue;
use crate::product::formats::Format;

const NAME: &str = "integer_product";

/// Computes products of prepared operands, A with two digits and `batch * m` rows, B with one digit and `groups * n` rows, and what
/// follows: `bias`, `[groups, n]`, or nothing; then an epilogue over C, `[batch, m, n]`, with the bits of its own launch.
///
/// # Errors
/// If a buffer has another type or length, an operand other rows, `accumulate` or a C that is transposed or a part of its
/// buffer comes with an epilogue, or a launch fails.
pub fn integer_product(
    device: &Device,
    [a, b]: [&Prepared; 2],
    bias: Option<&Buffer>,
    c: &Buffer,
    shape: &IntegerProduct,
    epilogue: Epilogue<'_>,
) -> Result<()> {
    check(a, b, bias, c, shape)?;
    if shape.batch * shape.m * shape.n == 0 {
        return Ok(());
    }
    let plain = matches!(epilogue, Epilogue::None);
    check_that!(NAME, plain || !shape.accumulate =>
        "an epilogue and accumulate exclude each other")?;
    let in_place = !shape.transposed && shape.within.is_none();
    check_that!(NAME, plain || in_place => "an epilogue is for a C that is its whole buffer")?;
    let mut call = Call {
        operands: [a, b],
        bias,
        extra: None,
        bounds: None,
        shape: *shape,
    };
    let format = format_of([a, b]);
    match epilogue {
        Epilogue::None if shape.accumulate && a.of.pieces() > 1 => {
            // C cannot hold both the pieces so far and what they are added to.
            let sums = device.alloc(c.len())?;
            if shape.within.is_some() {
                fill(device, 0.0, &sums)?;
            }
            call.shape.accumulate = false;
            (format.launch)(&call, device, &sums)?;
            add_assign(device, c, &sums)
        }
        Epilogue::None => (format.launch)(&call, device, c),
        Epilogue::Add(r) => {
            check_len(NAME, "r", r, c.len())?;
            call.extra = Some(r);
            (format.launch)(&call, device, c)
        }
        // Within the launch activations take longer than in one of their own.
        other => other.separately(device, c, false, |c| (format.launch)(&call, device, c)),
    }
}

fn format_of(operands: [&Prepared; 2]) -> &'static Format {
    Format::of_pair(operands.map(|operand| operand.of.n_digits))
}

fn check(
    a: &Prepared,
    b: &Prepared,
    bias: Option<&Buffer>,
    c: &Buffer,
    s: &IntegerProduct,
) -> Result<()> {
    s.check_sizes(NAME)?;
    let mut largest = s.reach();
    for (names, operand, rows, side) in [
        (["a's digits", "a's exponents"], a, s.batch * s.m, 0),
        (["b's digits", "b's exponents"], b, s.n_groups() * s.n, 1),
    ] {
        let (rows_found, terms) = (operand.of.rows, operand.of.k);
        check_that!(NAME, [rows_found, terms] == [rows, s.k] =>
            "{rows_found} rows of {terms} terms, expected {rows} of {k}", k = s.k)?;
        let n_digits = format_of([a, b]).pair[side];
        let of = Preparation {
            n_digits,
            ..operand.of
        };
        check_dtype(NAME, names[0], &operand.digits, DType::I8)?;
        check_dtype(NAME, names[1], &operand.exponents, DType::I32)?;
        check_len(NAME, names[0], &operand.digits, of.digits_len())?;
        check_len(NAME, names[1], &operand.exponents, of.exponents_len())?;
        largest = largest.max(of.digits_len() / 16);
    }
    check_dtype(NAME, "c", c, DType::F32)?;
    match s.within {
        Some(_) => check_that!(NAME, c.len() >= s.reach() =>
            "c has {found} elements, expected at least {least}",
            found = c.len(), least = s.reach())?,
        None => check_len(NAME, "c", c, [s.batch, s.m, s.n])?,
    }
    if let Some(bias) = bias {
        check_dtype(NAME, "bias", bias, DType::F32)?;
        check_len(NAME, "bias", bias, [s.n_groups(), s.n])?;
    }
    check_that!(NAME, a.of.piece == b.of.piece =>
        "the operands' rows have pieces of another length")?;
    check_that!(NAME, u32::try_from(largest).is_ok() => "an operand is past {} elements", u32::MAX)
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
) -> Result<()> {
    shape.check_sizes(NAME)?;
    let [first, groups] = bounds.groups;
    check_sizes(NAME, &[groups, shape.n])?;
    let (last, b_rows, by_rows) = match bounds.of {
        Bounded::Rows => (first + groups, groups * shape.n, true),
        Bounded::Terms => (groups.max(first + shape.batch), shape.n, false),
    };
    check_that!(NAME, bounds.buffer.len() > last =>
        "{found} bounds, expected more than {last}", found = bounds.buffer.len())?;
    for (operand, rows) in [(a, shape.m), (b, b_rows)] {
        let fits = operand.of.rows == rows && operand.of.padded() == shape.padded();
        let pieces = if by_rows { operand.of.pieces() } else { groups };
        let has = operand.exponents.len() == rows * pieces;
        check_that!(NAME, fits && has => "{:?}, expected {rows} rows for {shape:?}", operand.of)?;
    }
    check_len(NAME, "c", c, shape.reach())?;
    if c.is_empty() {
        return Ok(());
    }
    let one_piece = a.of.pieces() == 1 || !by_rows;
    check_that!(NAME, one_piece || !shape.accumulate => "products by rows do not accumulate")?;
    let call = Call {
        operands: [a, b],
        bias: None,
        extra: None,
        bounds: Some(bounds),
        shape: *shape,
    };
    (format_of([a, b]).launch)(&call, device, c)
}
