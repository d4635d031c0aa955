//! From numbers to the integers of a product's operand.

mod cpu;

pub(crate) use cpu::prepare_row;
use hlx_core::{Binding, Buffer, Context, DType, Launch, groups_1d, push_bytes};

use super::law::Width;
use super::{GRANULE, PIECE, check_dtype};
use crate::KernelError;
use crate::elementwise::fill;
use crate::error::{check_len, check_that};

shader!(rows_shader, "integer/prepare_rows");
shader!(tops_shader, "integer/column_tops");
shader!(columns_shader, "integer/prepare_columns");
shader!(both_tops_shader, "integer/row_and_column_tops");
shader!(both_shader, "integer/prepare_rows_and_columns");

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
        let prepared = Self::empty(ctx, of)?;
        prepare(ctx, x, &prepared)?;
        Ok(prepared)
    }

    /// Allocates two operands of matrices `x`, \[outer, k, columns\], and prepares them, as
    /// [`prepare_rows_and_columns`].
    ///
    /// # Errors
    /// As [`prepare_rows_and_columns`], and if there is no memory.
    pub fn rows_and_columns(
        ctx: &Context,
        x: &Buffer,
        of_rows: Preparation,
        of_columns: Preparation,
    ) -> Result<[Self; 2], KernelError> {
        let prepared = [Self::empty(ctx, of_rows)?, Self::empty(ctx, of_columns)?];
        prepare_rows_and_columns(ctx, x, [&prepared[0], &prepared[1]])?;
        Ok(prepared)
    }

    fn empty(ctx: &Context, of: Preparation) -> Result<Self, KernelError> {
        Ok(Self {
            digits: ctx.alloc_typed(DType::I8, of.digits_len())?,
            exponents: ctx.alloc_typed(DType::I32, of.exponents_len())?,
            of,
        })
    }
}

/// Writes the integers of rows and their exponents: `x` is f32, as `to.of` says.
///
/// # Errors
/// If a buffer has another type or length, or the launch fails.
pub fn prepare(ctx: &Context, x: &Buffer, to: &Prepared) -> Result<(), KernelError> {
    check(x, to)?;
    match to.of.of_columns {
        _ if to.of.rows == 0 => Ok(()),
        true => prepare_columns(ctx, x, to),
        false => prepare_rows(ctx, x, to),
    }
}

/// Writes the integers of the rows of matrices `x`, \[outer, k, columns\] in f32, and of their columns, with the bits
/// of [`prepare`] for either; both together read x twice, not four times.
///
/// # Errors
/// As [`prepare`], and if the two are not the rows and columns of the same matrices.
pub fn prepare_rows_and_columns(
    ctx: &Context,
    x: &Buffer,
    to: [&Prepared; 2],
) -> Result<(), KernelError> {
    let [rows, columns] = to.map(|to| to.of);
    to.into_iter().try_for_each(|to| check(x, to))?;
    let are_both = !rows.of_columns
        && columns.of_columns
        && (rows.rows, rows.k) == (columns.outer * columns.k, columns.columns());
    check_that(NAME, are_both, || {
        format!("{rows:?} and {columns:?} are not the rows and the columns of the same matrices")
    })?;
    if rows.rows * columns.rows == 0 {
        return to.into_iter().try_for_each(|to| prepare(ctx, x, to));
    }
    let sizes = push_of_columns(&columns, rows.padded());
    let tops = tops(ctx, x, &columns, Some(&rows))?;
    let across = columns.columns().max(rows.padded());
    let groups = columns.outer * columns.padded().div_ceil(TURNED[0]) * across.div_ceil(TURNED[1]);
    let wide_rows = u32::from(rows.width == Width::Wide);
    let launch = Launch {
        name: "prepare_integer_rows_and_columns",
        shader: &both_shader::SHADER,
        specialization: &[wide(&columns), vectors(columns.columns()), (2, wide_rows)],
        bindings: &[
            Binding::Read(x),
            Binding::Read(&tops),
            Binding::Write(&to[1].digits),
            Binding::Write(&to[1].exponents),
            Binding::Write(&to[0].digits),
            Binding::Write(&to[0].exponents),
        ],
        push: push_bytes(&sizes),
        groups: groups_1d(groups),
    };
    Ok(ctx.launch(launch, move |bindings| {
        let ([x, _], [digits, exponents, row_digits, row_exponents]) = bindings.split::<2, 4>();
        cpu::prepare(x, row_digits, row_exponents, &rows);
        cpu::prepare(x, digits, exponents, &columns);
    })?)
}

fn check(x: &Buffer, to: &Prepared) -> Result<(), KernelError> {
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
    })
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
        cpu::prepare(x, digits, exponents, &s);
    })?)
}

fn prepare_columns(ctx: &Context, x: &Buffer, to: &Prepared) -> Result<(), KernelError> {
    let s = to.of;
    let sizes = push_of_columns(&s, 0);
    let tops = tops(ctx, x, &s, None)?;
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
        push: push_bytes(&sizes),
        groups: groups_1d(groups),
    };
    Ok(ctx.launch(launch, move |bindings| {
        let ([x, _], [digits, exponents]) = bindings.split::<2, 2>();
        cpu::prepare(x, digits, exponents, &s);
    })?)
}

/// The sizes of columns, and of their matrices' rows of so many digits.
fn push_of_columns(s: &Preparation, row_padded: usize) -> columns_shader::Push {
    columns_shader::Push {
        outer: s.outer as u32,
        k: s.k as u32,
        columns: s.columns() as u32,
        words: (s.padded() / 4) as u32,
        row_words: (row_padded / 4) as u32,
    }
}

/// The largest magnitudes of columns by pieces, u32, and behind them those of their matrices' rows. The CPU device finds
/// them when it prepares.
fn tops(
    ctx: &Context,
    x: &Buffer,
    s: &Preparation,
    rows: Option<&Preparation>,
) -> Result<Buffer, KernelError> {
    let of_rows = rows.map_or(0, Preparation::exponents_len);
    let tops = ctx.alloc_typed(DType::U32, s.exponents_len() + of_rows)?;
    if ctx.is_cpu() {
        return Ok(tops);
    }
    fill(ctx, 0.0, &tops)?;
    let sizes = push_of_columns(s, rows.map_or(0, Preparation::padded));
    let groups = s.outer * s.k.div_ceil(SCANNED[0]) * s.columns().div_ceil(SCANNED[1]);
    let launch = Launch {
        name: "integer_tops",
        shader: match rows {
            Some(_) => &both_tops_shader::SHADER,
            None => &tops_shader::SHADER,
        },
        specialization: &[vectors(s.columns())],
        bindings: &[Binding::Read(x), Binding::ReadWrite(&tops)],
        push: push_bytes(&sizes),
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
