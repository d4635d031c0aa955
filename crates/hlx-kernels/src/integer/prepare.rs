//! From numbers to the integers of a product's operand.

mod cpu;
mod groups;
mod preparation;

use bytemuck::cast_slice;
pub(crate) use cpu::prepare_row;
pub(crate) use groups::Groups;
use hlx_core::{Binding, Buffer, Context, DType, Launch, groups_1d, push_bytes};
pub use preparation::Preparation;

use super::law::Width;
use super::{LONGEST, PIECE, check_dtype};
use crate::KernelError;
use crate::elementwise::fill;
use crate::error::{check_len, check_that};

shader!(rows_shader, "integer/prepare_rows");
shader!(counted_shader, "integer/counted_rows");
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

    /// Allocates an operand of columns and prepares it from `x`, as [`prepare`]; but of the matrices' rows only those enter the
    /// largest magnitudes whose row of the other operand is not zeros alone. What the other rows become is not
    /// said: it is multiplied by zeros.
    ///
    /// # Errors
    /// As [`prepare`], if `of` has no columns or the other operand other rows, and if there is no memory.
    pub fn columns_beside(
        ctx: &Context,
        x: &Buffer,
        of: Preparation,
        other: Beside<'_>,
    ) -> Result<Self, KernelError> {
        let prepared = Self::empty(ctx, of)?;
        check(x, &prepared)?;
        check_that(NAME, of.of_columns, || format!("{of:?} has no columns"))?;
        let rows = of.outer * of.k;
        if of.rows == 0 || rows == 0 {
            prepare(ctx, x, &prepared)?;
            return Ok(prepared);
        }
        let counted = counted_beside(ctx, other, rows)?;
        prepare_columns(ctx, x, &prepared, Some(&counted))?;
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

/// The rows of the operand that columns are multiplied with.
#[derive(Clone, Copy)]
pub enum Beside<'a> {
    /// As integers: their exponents tell which rows are zeros.
    Prepared(&'a Prepared),
    /// As they are, with their width.
    Values(&'a Buffer, usize),
}

/// Which rows of matrices count: those that have a piece whose exponent is not that of zeros.
struct Counted {
    /// i32, \[rows, pieces\].
    exponents: Buffer,
    pieces: usize,
}

/// Writes the integers of rows and their exponents: `x` is f32, as `to.of` says.
///
/// # Errors
/// If a buffer has another type or length, or the launch fails.
pub fn prepare(ctx: &Context, x: &Buffer, to: &Prepared) -> Result<(), KernelError> {
    check(x, to)?;
    match to.of.of_columns {
        _ if to.of.rows == 0 => Ok(()),
        true => prepare_columns(ctx, x, to, None),
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
    let tops = tops(ctx, x, &columns, Some(&rows), None)?;
    let across = columns.columns().max(rows.padded());
    let groups = columns.outer * columns.padded().div_ceil(TURNED[0]) * across.div_ceil(TURNED[1]);
    let wide_rows = u32::from(rows.width == Width::Wide);
    let launch = Launch {
        name: "prepare_integer_rows_and_columns",
        shader: &both_shader::SHADER,
        specialization: &[
            wide(&columns),
            vectors([columns.columns(), columns.stride]),
            (2, wide_rows),
            piece(&columns),
        ],
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
        cpu::prepare(x, row_digits, row_exponents, &rows, None);
        cpu::prepare(x, digits, exponents, &columns, None);
    })?)
}

fn check(x: &Buffer, to: &Prepared) -> Result<(), KernelError> {
    let s = to.of;
    check_dtype(NAME, "x", x, DType::F32)?;
    check_dtype(NAME, "digits", &to.digits, DType::I8)?;
    check_dtype(NAME, "exponents", &to.exponents, DType::I32)?;
    check_len(NAME, "x", x, s.reach())?;
    check_len(NAME, "digits", &to.digits, s.digits_len())?;
    check_len(NAME, "exponents", &to.exponents, s.exponents_len())?;
    check_that(NAME, s.piece == PIECE || s.of_columns, || {
        "rows with one exponent are the columns of matrices".to_owned()
    })?;
    check_that(NAME, s.piece == PIECE || s.k <= LONGEST, || {
        format!(
            "a sum of {} terms with one exponent, expected at most {LONGEST}; more shards have fewer",
            s.k
        )
    })?;
    check_that(
        NAME,
        u32::try_from(s.reach().max(s.rows * s.k)).is_ok(),
        || {
            let found = s.reach().max(s.rows * s.k);
            format!("x has {found} elements, expected at most {}", u32::MAX)
        },
    )
}

fn prepare_rows(ctx: &Context, x: &Buffer, to: &Prepared) -> Result<(), KernelError> {
    let s = to.of;
    let push = rows_shader::Push {
        rows: s.rows as u32,
        k: s.k as u32,
        words: (s.padded() / 4) as u32,
        matrix_rows: s.columns() as u32,
        stride: s.stride as u32,
    };
    let launch = Launch {
        name: "prepare_integer_rows",
        shader: &rows_shader::SHADER,
        specialization: &[wide(&s), vectors([s.k, s.stride])],
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
        cpu::prepare(x, digits, exponents, &s, None);
    })?)
}

fn prepare_columns(
    ctx: &Context,
    x: &Buffer,
    to: &Prepared,
    counted: Option<&Counted>,
) -> Result<(), KernelError> {
    let s = to.of;
    let sizes = push_of_columns(&s, 0);
    let tops = tops(ctx, x, &s, None, counted)?;
    let groups = s.outer * s.padded().div_ceil(TURNED[0]) * s.columns().div_ceil(TURNED[1]);
    let launch = Launch {
        name: "prepare_integer_columns",
        shader: &columns_shader::SHADER,
        specialization: &[wide(&s), vectors([s.columns(), s.stride]), piece(&s)],
        bindings: &[
            Binding::Read(x),
            // On the CPU, which finds the largest magnitudes by itself, the rows that count.
            Binding::Read(
                counted
                    .filter(|_| ctx.is_cpu())
                    .map_or(&tops, |counted| &counted.exponents),
            ),
            Binding::Write(&to.digits),
            Binding::Write(&to.exponents),
        ],
        push: push_bytes(&sizes),
        groups: groups_1d(groups),
    };
    let counted_pieces = counted.map(|counted| counted.pieces);
    Ok(ctx.launch(launch, move |bindings| {
        let ([x, counted], [digits, exponents]) = bindings.split::<2, 2>();
        let counted = counted_pieces.map(|pieces| (cast_slice(counted), pieces));
        cpu::prepare(x, digits, exponents, &s, counted);
    })?)
}

/// Which of so many rows count beside the other operand.
fn counted_beside(ctx: &Context, other: Beside<'_>, rows: usize) -> Result<Counted, KernelError> {
    Ok(match other {
        Beside::Prepared(other) => {
            let is_rows = !other.of.of_columns && other.of.rows == rows;
            check_that(NAME, is_rows, || {
                format!("{:?} has not {rows} rows", other.of)
            })?;
            Counted {
                exponents: other.exponents.clone(),
                pieces: other.of.pieces(),
            }
        }
        Beside::Values(other, width) => {
            check_len(NAME, "the other operand", other, rows * width)?;
            Counted {
                exponents: counted_rows(ctx, other, [rows, width])?,
                pieces: 1,
            }
        }
    })
}

/// Which rows of `x`, \[rows, width\], are zeros alone: i32, the exponent of zeros, else 0.
fn counted_rows(
    ctx: &Context,
    x: &Buffer,
    [rows, width]: [usize; 2],
) -> Result<Buffer, KernelError> {
    let counted = ctx.alloc_typed(DType::I32, rows)?;
    let push = counted_shader::Push {
        rows: rows as u32,
        k: width as u32,
    };
    let launch = Launch {
        name: "integer_counted_rows",
        shader: &counted_shader::SHADER,
        specialization: &[vectors([width, 0])],
        bindings: &[Binding::Read(x), Binding::Write(&counted)],
        push: push_bytes(&push),
        groups: groups_1d(rows.div_ceil(ROWS)),
    };
    ctx.launch(launch, move |bindings| {
        let ([x], [counted]) = bindings.split();
        cpu::counted_rows(x, counted, width);
    })?;
    Ok(counted)
}

/// The sizes of columns, and of their matrices' rows of so many digits.
fn push_of_columns(s: &Preparation, row_padded: usize) -> columns_shader::Push {
    columns_shader::Push {
        outer: s.outer as u32,
        k: s.k as u32,
        columns: s.columns() as u32,
        words: (s.padded() / 4) as u32,
        row_words: (row_padded / 4) as u32,
        stride: s.stride as u32,
    }
}

/// The largest magnitudes of columns by pieces, u32, and behind them those of their matrices' rows. The CPU device finds
/// them when it prepares.
fn tops(
    ctx: &Context,
    x: &Buffer,
    s: &Preparation,
    rows: Option<&Preparation>,
    counted: Option<&Counted>,
) -> Result<Buffer, KernelError> {
    let of_rows = rows.map_or(0, Preparation::exponents_len);
    let tops = ctx.alloc_typed(DType::U32, s.exponents_len() + of_rows)?;
    if ctx.is_cpu() {
        return Ok(tops);
    }
    fill(ctx, 0.0, &tops)?;
    let sizes = push_of_columns(s, rows.map_or(0, Preparation::padded));
    let groups = s.outer * s.k.div_ceil(SCANNED[0]) * s.columns().div_ceil(SCANNED[1]);
    let mut bindings = vec![Binding::Read(x), Binding::ReadWrite(&tops)];
    if rows.is_none() {
        // Without a choice of rows nobody reads it.
        bindings.push(Binding::Read(
            counted.map_or(x, |counted| &counted.exponents),
        ));
    }
    let launch = Launch {
        name: "integer_tops",
        shader: match rows {
            Some(_) => &both_tops_shader::SHADER,
            None => &tops_shader::SHADER,
        },
        specialization: &[
            vectors([s.columns(), s.stride]),
            piece(s),
            (3, counted.map_or(0, |counted| counted.pieces as u32)),
        ],
        bindings: &bindings,
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

/// The constant COLUMN_PIECE.
fn piece(s: &Preparation) -> (u32, u32) {
    (8, s.piece as u32)
}

/// The constant VECTORS, for rows of so many numbers in memory and matrices so far apart.
fn vectors(numbers: [usize; 2]) -> (u32, u32) {
    let whole = numbers.iter().all(|n| n.is_multiple_of(4));
    (1, u32::from(whole))
}
