//! The `integer` arithmetic: products over integers, whose sums are exact in every order.
//!
//! A row of an operand (over the axis that is summed) becomes integers times a power of two of the row
//! ([`prepare`]): of 16 bits, in two digits, where it carries a step's signal ([`Width::Wide`]), else of 8
//! ([`Width::Narrow`]). [`integer_product`] multiplies a wide operand with a narrow one. Each result has one
//! definition, whatever instructions compute its sums:
//!
//! `C[m, n] = f32(S) 2^-(e_a[m] + e_b[n])`, with `S` the exact sum over k of `a[m, k] b[n, k]`, which is rounded
//! once, to nearest, ties to even; then -0 becomes +0, and a bias is added. A row with a NaN or an
//! infinity gives NaN. Below 2^-126 a result is +0, above the largest float an infinity.

mod law;
#[cfg(test)]
mod tests;

use bytemuck::{cast_slice, cast_slice_mut};
use hlx_core::{Binding, Buffer, Context, DType, Launch, arith, groups_1d, push_bytes};
use rayon::prelude::*;

use crate::KernelError;
use crate::error::{check_len, check_that};

pub use law::Width;
use law::{NO_EXPONENT, digits, magnitude, quantised, result, row_exponent};

shader!(prepare_shader, "integer/prepare");
shader!(product_shader, "integer/product");

/// The longest sum: with the largest digits it fills 32 bits.
pub const MOST_TERMS: usize = 131_072;
/// Elements that a row of digits is a multiple of; zeros fill it up.
const GRANULE: usize = 32;
/// Rows of a workgroup that prepares, and rows and columns of one that multiplies.
const PREPARED_ROWS: usize = 8;
const SIDE: usize = 16;

/// The rows of an operand that is prepared: element i of row r lies at `r row_stride + i k_stride`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Preparation {
    /// Rows, each with an exponent of its own.
    pub rows: usize,
    /// Elements of a row, at most [`MOST_TERMS`].
    pub k: usize,
    /// Elements from row to row.
    pub row_stride: usize,
    /// Elements from one of a row to the next.
    pub k_stride: usize,
    /// The integers' bits.
    pub width: Width,
}

impl Preparation {
    /// Rows that lie one behind the other.
    pub const fn new(rows: usize, k: usize, width: Width) -> Self {
        Self {
            rows,
            k,
            row_stride: k,
            k_stride: 1,
            width,
        }
    }

    /// The columns of a matrix \[k, rows\] as rows.
    pub const fn of_columns(rows: usize, k: usize, width: Width) -> Self {
        Self {
            row_stride: 1,
            k_stride: rows,
            ..Self::new(rows, k, width)
        }
    }

    /// Elements of a row of digits.
    pub const fn padded(&self) -> usize {
        self.k.div_ceil(GRANULE) * GRANULE
    }

    /// Elements of the digits, i8: `[planes, rows, padded k]`.
    pub const fn digits_len(&self) -> usize {
        self.width.planes() * self.rows * self.padded()
    }
}

fn check_terms(operation: &'static str, k: usize) -> Result<(), KernelError> {
    check_that(operation, k <= MOST_TERMS, || {
        format!("k is {k}, expected at most {MOST_TERMS}: a longer sum may not fit 32 bits")
    })
}

fn check_dtype(
    operation: &'static str,
    argument: &str,
    buffer: &Buffer,
    dtype: DType,
) -> Result<(), KernelError> {
    check_that(operation, buffer.dtype() == dtype, || {
        format!("{argument} has dtype {}, expected {dtype}", buffer.dtype())
    })
}

/// Writes the integers of rows and their exponents.
///
/// `x`: f32, as `shape` says; `prepared`: digits of i8 ([`Preparation::digits_len`]) and exponents of i32 `[rows]`.
///
/// # Errors
/// If a buffer has another type or is too short, `k` is past [`MOST_TERMS`], or the launch fails.
pub fn prepare(
    ctx: &Context,
    x: &Buffer,
    [to_digits, exponents]: [&Buffer; 2],
    shape: &Preparation,
) -> Result<(), KernelError> {
    const NAME: &str = "prepare_integers";
    let s = *shape;
    check_terms(NAME, s.k)?;
    check_dtype(NAME, "x", x, DType::F32)?;
    check_dtype(NAME, "digits", to_digits, DType::I8)?;
    check_dtype(NAME, "exponents", exponents, DType::I32)?;
    check_len(NAME, "digits", to_digits, s.digits_len())?;
    check_len(NAME, "exponents", exponents, s.rows)?;
    if s.rows == 0 {
        return Ok(());
    }
    let end = match s.k {
        0 => 0,
        k => (s.rows - 1) * s.row_stride + (k - 1) * s.k_stride + 1,
    };
    check_that(NAME, end <= x.len() && end <= u32::MAX as usize, || {
        format!("x has {} elements, its rows end at {end}", x.len())
    })?;
    let push = prepare_shader::Push {
        rows: s.rows as u32,
        k: s.k as u32,
        words: (s.padded() / 4) as u32,
        row_stride: s.row_stride as u32,
        k_stride: s.k_stride as u32,
    };
    let launch = Launch {
        name: NAME,
        shader: &prepare_shader::SHADER,
        specialization: &[(0, u32::from(s.width == Width::Wide))],
        bindings: &[
            Binding::Read(x),
            Binding::Write(to_digits),
            Binding::Write(exponents),
        ],
        push: push_bytes(&push),
        groups: groups_1d(s.rows.div_ceil(PREPARED_ROWS)),
    };
    ctx.launch(launch, move |bindings| {
        let ([x], [to_digits, exponents]) = bindings.split::<1, 2>();
        let to_digits: &mut [i8] = &mut cast_slice_mut(to_digits)[..s.digits_len()];
        prepare_rows(x, to_digits, &mut cast_slice_mut(exponents)[..s.rows], &s);
    })?;
    Ok(())
}

fn prepare_rows(x: &[f32], to: &mut [i8], exponents: &mut [i32], s: &Preparation) {
    let at = |row: usize, i: usize| x[row * s.row_stride + i * s.k_stride];
    exponents
        .par_iter_mut()
        .enumerate()
        .for_each(|(row, exponent)| {
            let top = (0..s.k).map(|i| magnitude(at(row, i))).max();
            *exponent = row_exponent(top.unwrap_or(0), s.width);
        });
    if s.padded() == 0 {
        return;
    }
    to.par_chunks_mut(s.padded())
        .enumerate()
        .for_each(|(line, to)| {
            let (plane, row) = (line / s.rows, line % s.rows);
            let exponent = exponents[row];
            for (i, to) in to.iter_mut().enumerate() {
                let q = match i < s.k && exponent != NO_EXPONENT {
                    true => quantised(at(row, i), exponent),
                    false => 0,
                };
                *to = match s.width {
                    Width::Wide => digits(q)[plane],
                    Width::Narrow => q as i8,
                };
            }
        });
}

/// A product `C[m, n] = sum over k of A[m, k] B[n, k]` of prepared operands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IntegerProduct {
    /// Rows of A and of C.
    pub m: usize,
    /// Rows of B, columns of C.
    pub n: usize,
    /// Terms of a sum, at most [`MOST_TERMS`].
    pub k: usize,
}

/// Computes a product of prepared operands: digits and exponents of A, wide, `[2, M, padded K]` and `[M]`, and of B,
/// narrow, `[N, padded K]` and `[N]`; `bias` is `[N]`, C is `[M, N]`, f32.
///
/// # Errors
/// If a buffer has another type or length, `k` is past [`MOST_TERMS`], or the launch fails.
pub fn integer_product(
    ctx: &Context,
    a: [&Buffer; 2],
    b: [&Buffer; 2],
    bias: Option<&Buffer>,
    c: &Buffer,
    shape: &IntegerProduct,
) -> Result<(), KernelError> {
    const NAME: &str = "integer_product";
    let s = *shape;
    check_terms(NAME, s.k)?;
    let of_a = Preparation::new(s.m, s.k, Width::Wide);
    let of_b = Preparation::new(s.n, s.k, Width::Narrow);
    for (names, buffers, of) in [
        (["a's digits", "a's exponents"], a, of_a),
        (["b's digits", "b's exponents"], b, of_b),
    ] {
        check_dtype(NAME, names[0], buffers[0], DType::I8)?;
        check_dtype(NAME, names[1], buffers[1], DType::I32)?;
        check_len(NAME, names[0], buffers[0], of.digits_len())?;
        check_len(NAME, names[1], buffers[1], of.rows)?;
    }
    check_dtype(NAME, "c", c, DType::F32)?;
    check_len(NAME, "c", c, s.m * s.n)?;
    if let Some(bias) = bias {
        check_dtype(NAME, "bias", bias, DType::F32)?;
        check_len(NAME, "bias", bias, s.n)?;
    }
    if s.m * s.n == 0 {
        return Ok(());
    }
    let push = product_shader::Push {
        m: s.m as u32,
        n: s.n as u32,
        words: (of_a.padded() / 4) as u32,
    };
    let launch = Launch {
        name: NAME,
        shader: &product_shader::SHADER,
        specialization: &[(0, u32::from(bias.is_some()))],
        bindings: &[
            Binding::Read(a[0]),
            Binding::Read(a[1]),
            Binding::Read(b[0]),
            Binding::Read(b[1]),
            // Without a bias any readable buffer is bound and not read.
            Binding::Read(bias.unwrap_or(a[1])),
            Binding::Write(c),
        ],
        push: push_bytes(&push),
        groups: groups_1d(s.m.div_ceil(SIDE) * s.n.div_ceil(SIDE)),
    };
    let has_bias = bias.is_some();
    ctx.launch(launch, move |bindings| {
        let ([a, a_exponents, b, b_exponents, bias], [c]) = bindings.split::<5, 1>();
        let (a, b): (&[i8], &[i8]) = (cast_slice(a), cast_slice(b));
        let exponents: [&[i32]; 2] = [cast_slice(a_exponents), cast_slice(b_exponents)];
        let padded = of_a.padded();
        let line = |digits: &'_ [i8], row: usize| -> Vec<i32> {
            digits[row * padded..][..padded]
                .iter()
                .map(|&digit| digit.into())
                .collect()
        };
        c[..s.m * s.n]
            .par_chunks_mut(s.n)
            .enumerate()
            .for_each(|(row, c)| {
                let [high, low] = [line(a, row), line(a, s.m + row)];
                for (column, c) in c.iter_mut().enumerate() {
                    let of_b = &b[column * padded..][..padded];
                    let sums = [&high, &low].map(|digits| {
                        let terms = digits.iter().zip(of_b);
                        terms.map(|(&a, &b)| a * i32::from(b)).sum()
                    });
                    *c = result(sums, [exponents[0][row], exponents[1][column]]);
                    if has_bias {
                        *c = arith::pos0(arith::add(*c, bias[column]));
                    }
                }
            });
    })?;
    Ok(())
}
