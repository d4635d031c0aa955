//! From numbers to the integers of a product's operand.

use bytemuck::cast_slice_mut;
use hlx_core::{
    Binding, Buffer, Context, DType, DeviceKind, Launch, Shader, groups_1d, push_bytes,
};
use rayon::prelude::*;

use super::law::{NO_EXPONENT, Width, digits, magnitude, quantised, row_exponent};
use super::{GRANULE, PIECE, check_dtype};
use crate::KernelError;
use crate::error::{check_len, check_that};

shader!(rows_shader, "integer/prepare_rows");
shader!(columns_shader, "integer/prepare_columns");

const NAME: &str = "prepare_integers";
/// Rows of a workgroup.
const ROWS: usize = 8;
/// Threads of a workgroup that prepares columns, and columns that it may have, the most first.
const THREADS: usize = 256;
const WIDTHS: [usize; 3] = [32, 16, 8];
/// Numbers that a thread of it may hold in registers, and the number for none.
const HELD: [usize; 3] = [32, 64, 128];
const HELD_NONE: usize = 8;

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

/// A kernel that prepares, as it is launched for a shape.
struct Kernel<'a> {
    name: &'static str,
    shader: &'static Shader,
    specialization: &'a [(u32, u32)],
    push: &'a [u8],
    groups: usize,
}

fn prepare_rows(ctx: &Context, x: &Buffer, to: &Prepared) -> Result<(), KernelError> {
    let s = to.of;
    let push = rows_shader::Push {
        rows: s.rows as u32,
        k: s.k as u32,
        words: (s.padded() / 4) as u32,
    };
    let kernel = Kernel {
        name: "prepare_integer_rows",
        shader: &rows_shader::SHADER,
        specialization: &[wide(&s), (1, u32::from(s.k.is_multiple_of(4)))],
        push: push_bytes(&push),
        groups: s.exponents_len().div_ceil(ROWS),
    };
    launch(ctx, kernel, x, to)
}

fn prepare_columns(ctx: &Context, x: &Buffer, to: &Prepared) -> Result<(), KernelError> {
    let s = to.of;
    let push = columns_shader::Push {
        outer: s.outer as u32,
        k: s.k as u32,
        columns: s.columns() as u32,
        words: (s.padded() / 4) as u32,
    };
    let groups = |width: usize| s.outer * s.columns().div_ceil(width) * s.pieces();
    // As many columns as leave every processor four workgroups.
    let fills = |width: &usize| groups(*width) >= 4 * ctx.tuning().processors;
    let width = WIDTHS.into_iter().find(fills).unwrap_or(WIDTHS[2]);
    // Software drivers would compile the unrolled kernels for long.
    let numbers = match ctx.info().kind {
        DeviceKind::VulkanGpu => s.k.min(PIECE) * width / THREADS,
        _ => usize::MAX,
    };
    let held = HELD.into_iter().find(|&held| numbers <= held);
    let kernel = Kernel {
        name: "prepare_integer_columns",
        shader: &columns_shader::SHADER,
        specialization: &[
            wide(&s),
            (1, width as u32),
            (2, held.unwrap_or(HELD_NONE) as u32),
        ],
        push: push_bytes(&push),
        groups: groups(width),
    };
    launch(ctx, kernel, x, to)
}

/// The constant WIDE.
fn wide(s: &Preparation) -> (u32, u32) {
    (0, u32::from(s.width == Width::Wide))
}

fn launch(ctx: &Context, kernel: Kernel<'_>, x: &Buffer, to: &Prepared) -> Result<(), KernelError> {
    let s = to.of;
    let launch = Launch {
        name: kernel.name,
        shader: kernel.shader,
        specialization: kernel.specialization,
        bindings: &[
            Binding::Read(x),
            Binding::Write(&to.digits),
            Binding::Write(&to.exponents),
        ],
        push: kernel.push,
        groups: groups_1d(kernel.groups),
    };
    ctx.launch(launch, move |bindings| {
        let ([x], [digits, exponents]) = bindings.split::<1, 2>();
        let digits: &mut [i8] = &mut cast_slice_mut(digits)[..s.digits_len()];
        let exponents: &mut [i32] = &mut cast_slice_mut(exponents)[..s.exponents_len()];
        prepare_on_cpu(x, digits, exponents, &s);
    })?;
    Ok(())
}

fn prepare_on_cpu(x: &[f32], to: &mut [i8], exponents: &mut [i32], s: &Preparation) {
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
