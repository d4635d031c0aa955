//! From numbers to the integers of a product's operand.

use bytemuck::cast_slice_mut;
use hlx_core::{Binding, Buffer, Context, DType, Launch, groups_1d, push_bytes};
use rayon::prelude::*;

use super::law::{NO_EXPONENT, Width, digits, magnitude, quantised, row_exponent};
use super::{GRANULE, PIECE, check_dtype};
use crate::KernelError;
use crate::elementwise::fill;
use crate::error::{check_len, check_that};

shader!(rows_shader, "integer/prepare_rows");
shader!(tops_shader, "integer/column_tops");
shader!(columns_shader, "integer/prepare_columns");

const NAME: &str = "prepare_integers";
/// Rows of a workgroup.
const ROWS: usize = 8;
/// Rows and columns of a workgroup that looks for the largest magnitudes, and of one that turns the digits.
const SCANNED: [usize; 2] = [64, 128];
const TURNED: [usize; 2] = [128, 32];

/// What an operand's rows are, over which a product sums: each of their pieces has an exponent of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Preparation {
    /// Matrices one behind the other.
    outer: usize,
    /// Rows of all of them.
    rows: usize,
    /// Elements of a row.
    k: usize,
    /// The rows are the matrices' columns.
    of_columns: bool,
    /// The integers' bits.
    width: Width,
}

impl Preparation {
    /// The rows of a matrix \[rows, k\].
    pub const fn of_rows(rows: usize, k: usize, width: Width) -> Self {
        Self {
            outer: 1,
            rows,
            k,
            of_columns: false,
            width,
        }
    }

    /// The columns of matrices \[outer, k, columns\]: `outer * columns` rows of `k`.
    pub const fn of_columns(outer: usize, k: usize, columns: usize, width: Width) -> Self {
        Self {
            outer,
            rows: outer * columns,
            k,
            of_columns: true,
            width,
        }
    }

    /// The number of rows.
    pub const fn rows(&self) -> usize {
        self.rows
    }

    /// Elements of a row of digits.
    pub const fn padded(&self) -> usize {
        self.k.div_ceil(GRANULE) * GRANULE
    }

    /// Elements of the digits, i8: `[planes, rows, padded k]`.
    pub const fn digits_len(&self) -> usize {
        self.width.planes() * self.rows * self.padded()
    }

    /// Pieces of a row.
    pub const fn pieces(&self) -> usize {
        let pieces = self.k.div_ceil(PIECE);
        if pieces == 0 { 1 } else { pieces }
    }

    /// Exponents, i32: `[rows, pieces]`.
    pub const fn exponents_len(&self) -> usize {
        self.rows * self.pieces()
    }

    const fn columns(&self) -> usize {
        self.rows / if self.outer == 0 { 1 } else { self.outer }
    }

    /// Where element i of a row lies.
    fn at(&self, row: usize, i: usize) -> usize {
        match self.of_columns {
            false => row * self.k + i,
            true => {
                let columns = self.columns();
                (row / columns * self.k + i) * columns + row % columns
            }
        }
    }
}

/// An operand as integers: its digits and exponents.
#[derive(Clone, Debug)]
pub struct Prepared {
    /// i8, `[planes, rows, padded k]`: the upper digits of wide rows first.
    pub digits: Buffer,
    /// i32, `[rows, pieces]`.
    pub exponents: Buffer,
    /// What the rows are.
    pub of: Preparation,
}

impl Prepared {
    /// Allocates an operand and prepares it from `x`, as [`prepare`].
    ///
    /// # Errors
    /// As [`prepare`], and if there is no memory.
    pub fn new(ctx: &Context, x: &Buffer, of: Preparation) -> Result<Self, KernelError> {
        let prepared = Self {
            digits: ctx.alloc_typed(DType::I8, of.digits_len())?,
            exponents: ctx.alloc_typed(DType::I32, of.exponents_len())?,
            of,
        };
        prepare(ctx, x, &prepared)?;
        Ok(prepared)
    }
}

/// Writes the integers of rows and their exponents: `x` is f32, as `to.of` says.
///
/// # Errors
/// If a buffer has another type or length, or the launch fails.
pub fn prepare(ctx: &Context, x: &Buffer, to: &Prepared) -> Result<(), KernelError> {
    let s = to.of;
    check_dtype(NAME, "x", x, DType::F32)?;
    check_dtype(NAME, "digits", &to.digits, DType::I8)?;
    check_dtype(NAME, "exponents", &to.exponents, DType::I32)?;
    check_len(NAME, "x", x, s.rows * s.k)?;
    check_len(NAME, "digits", &to.digits, s.digits_len())?;
    check_len(NAME, "exponents", &to.exponents, s.exponents_len())?;
    check_that(NAME, u32::try_from(s.rows * s.k).is_ok(), || {
        format!(
            "x has {} elements, expected at most {}",
            s.rows * s.k,
            u32::MAX
        )
    })?;
    if s.rows == 0 {
        return Ok(());
    }
    match s.of_columns {
        true => prepare_columns(ctx, x, to),
        false => prepare_rows(ctx, x, to),
    }
}

fn prepare_rows(ctx: &Context, x: &Buffer, to: &Prepared) -> Result<(), KernelError> {
    let s = to.of;
    let push = rows_shader::Push {
        rows: s.rows as u32,
        k: s.k as u32,
        words: (s.padded() / 4) as u32,
    };
    let launch = Launch {
        name: "prepare_integer_rows",
        shader: &rows_shader::SHADER,
        specialization: &[wide(&s), vectors(s.k)],
        bindings: &[
            Binding::Read(x),
            Binding::Write(&to.digits),
            Binding::Write(&to.exponents),
        ],
        push: push_bytes(&push),
        groups: groups_1d(s.exponents_len().div_ceil(ROWS)),
    };
    Ok(ctx.launch(launch, move |bindings| {
        let ([x], [digits, exponents]) = bindings.split::<1, 2>();
        prepare_on_cpu(x, digits, exponents, &s);
    })?)
}

fn prepare_columns(ctx: &Context, x: &Buffer, to: &Prepared) -> Result<(), KernelError> {
    let s = to.of;
    let push = columns_shader::Push {
        outer: s.outer as u32,
        k: s.k as u32,
        columns: s.columns() as u32,
        words: (s.padded() / 4) as u32,
    };
    let tops = column_tops(ctx, x, &s, push_bytes(&push))?;
    let groups = s.outer * s.padded().div_ceil(TURNED[0]) * s.columns().div_ceil(TURNED[1]);
    let launch = Launch {
        name: "prepare_integer_columns",
        shader: &columns_shader::SHADER,
        specialization: &[wide(&s), vectors(s.columns())],
        bindings: &[
            Binding::Read(x),
            Binding::Read(&tops),
            Binding::Write(&to.digits),
            Binding::Write(&to.exponents),
        ],
        push: push_bytes(&push),
        groups: groups_1d(groups),
    };
    Ok(ctx.launch(launch, move |bindings| {
        let ([x, _], [digits, exponents]) = bindings.split::<2, 2>();
        prepare_on_cpu(x, digits, exponents, &s);
    })?)
}

/// The largest magnitudes of columns by pieces, u32. The CPU device finds them when it prepares.
fn column_tops(
    ctx: &Context,
    x: &Buffer,
    s: &Preparation,
    push: &[u8],
) -> Result<Buffer, KernelError> {
    let tops = ctx.alloc_typed(DType::U32, s.exponents_len())?;
    if ctx.is_cpu() {
        return Ok(tops);
    }
    fill(ctx, 0.0, &tops)?;
    let groups = s.outer * s.k.div_ceil(SCANNED[0]) * s.columns().div_ceil(SCANNED[1]);
    let launch = Launch {
        name: "integer_column_tops",
        shader: &tops_shader::SHADER,
        specialization: &[vectors(s.columns())],
        bindings: &[Binding::Read(x), Binding::ReadWrite(&tops)],
        push,
        groups: groups_1d(groups.max(1)),
    };
    ctx.launch(launch, |_| {})?;
    Ok(tops)
}

/// The constant WIDE.
fn wide(s: &Preparation) -> (u32, u32) {
    (0, u32::from(s.width == Width::Wide))
}

/// The constant VECTORS, for rows of so many numbers in memory.
fn vectors(numbers: usize) -> (u32, u32) {
    (1, u32::from(numbers.is_multiple_of(4)))
}

fn prepare_on_cpu(x: &[f32], to: &mut [f32], exponents: &mut [f32], s: &Preparation) {
    let to: &mut [i8] = &mut cast_slice_mut(to)[..s.digits_len()];
    let exponents: &mut [i32] = &mut cast_slice_mut(exponents)[..s.exponents_len()];
    exponents
        .par_iter_mut()
        .enumerate()
        .for_each(|(at, exponent)| {
            let (row, first) = (at / s.pieces(), at % s.pieces() * PIECE);
            let terms = first..s.k.min(first + PIECE);
            let top = terms.map(|i| magnitude(x[s.at(row, i)])).max();
            *exponent = row_exponent(top.unwrap_or(0), s.width);
        });
    if s.padded() == 0 {
        return;
    }
    to.par_chunks_mut(s.padded())
        .enumerate()
        .for_each(|(line, to)| {
            let (plane, row) = (line / s.rows, line % s.rows);
            for (i, to) in to.iter_mut().enumerate() {
                let exponent = exponents[row * s.pieces() + i / PIECE];
                let q = match i < s.k && exponent != NO_EXPONENT {
                    true => quantised(x[s.at(row, i)], exponent),
                    false => 0,
                };
                *to = match s.width {
                    Width::Wide => digits(q)[plane],
                    Width::Narrow => q as i8,
                };
            }
        });
}
