//! From numbers to the integers of a product's operand.

mod columns;
mod cpu;
mod groups;
mod normed;
mod preparation;
mod rows;
mod source;
#[cfg(test)]
mod tests;

use hlx_core::{Buffer, DType, Device, Shader};

use super::specification::Digits;
use super::{LONGEST, PIECE};
use crate::Result;
use crate::error::{check_dtype, check_indexable, check_len, check_that};
use crate::kernel::Kernel;

pub use columns::{Beside, prepare_rows_and_columns};
use columns::{Counted, prepare_columns};
pub(crate) use groups::Groups;
pub use normed::prepare_norm;
pub use preparation::Preparation;
pub(crate) use rows::{DigitRows, prepare_row};
pub use source::Source;

shader!(integer::{
    prepare_rows as rows_shader, prepare_rows_of_activation as rows_of_activation,
    prepare_rows_of_gated as rows_of_gated,
});

/// The shaders of rows, by [`Source::index`]; those of a norm's result are prepared by the norm.
static SHADERS: [&Shader; 3] = [
    &rows_shader::SHADER,
    &rows_of_activation::SHADER,
    &rows_of_gated::SHADER,
];

const NAME: &str = "prepare_integers";
/// Threads of a workgroup.
const THREADS: usize = 256;
/// Rows of a workgroup that has 32 threads for each.
const ROWS: usize = THREADS / 32;

/// An operand as integers: its digits and exponents.
#[derive(Clone, Debug)]
pub struct Prepared {
    /// i8: planes of rows, the upper digits first, if rows have two, where [`Preparation::layout`] says.
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
    pub fn new<'a>(device: &Device, x: impl Into<Source<'a>>, of: Preparation) -> Result<Self> {
        let prepared = Self::empty(device, of)?;
        prepare(device, x, &prepared)?;
        Ok(prepared)
    }

    /// Allocates two operands of matrices `x`, \[outer, k, columns\], and prepares them, as
    /// [`prepare_rows_and_columns`].
    ///
    /// # Errors
    /// As [`prepare_rows_and_columns`], and if there is no memory.
    pub fn rows_and_columns(
        device: &Device,
        x: &Buffer,
        of_rows: Preparation,
        of_columns: Preparation,
    ) -> Result<[Self; 2]> {
        let [rows, columns] = [of_rows, of_columns].map(|of| Self::empty(device, of));
        let prepared = [rows?, columns?];
        prepare_rows_and_columns(device, x, prepared.each_ref())?;
        Ok(prepared)
    }

    /// Allocates an operand of columns and prepares it from `x`, as [`prepare`]; but of the matrices' rows only those enter the
    /// largest magnitudes whose row of the other operand is not zeros alone. What the other rows become is not
    /// said: it is multiplied by zeros.
    ///
    /// # Errors
    /// As [`prepare`], if `of` has no columns or the other operand other rows, and if there is no memory.
    pub fn columns_beside(
        device: &Device,
        x: Source<'_>,
        of: Preparation,
        other: Beside<'_>,
    ) -> Result<Self> {
        let prepared = Self::empty(device, of)?;
        check(x, &prepared)?;
        check_that!(NAME, of.of_columns => "{of:?} has no columns")?;
        let counted = match of.outer * of.k * of.rows {
            0 => Counted::ALL,
            _ => Counted::new(device, other, of.outer * of.k)?,
        };
        if of.rows > 0 {
            prepare_columns(device, x, &prepared, &counted)?;
        }
        Ok(prepared)
    }

    /// What a kernel that prepares the operand writes.
    pub(crate) fn written(&self) -> [&Buffer; 2] {
        [&self.digits, &self.exponents]
    }

    /// Allocates an operand.
    pub(crate) fn empty(device: &Device, of: Preparation) -> Result<Self> {
        of.check_sizes(NAME)?;
        of.check_layout(NAME, device)?;
        Ok(Self {
            digits: device.alloc_typed(DType::I8, of.digits_len())?,
            exponents: device.alloc_typed(DType::I32, of.exponents_len())?,
            of,
        })
    }
}

/// Writes the integers of rows and their exponents: `x` is f32, as `to.of` says, or what it is computed from.
///
/// # Errors
/// If a buffer has another type or length, for rows of a norm's result ([`prepare_norm`] is for
/// these), or if the launch fails.
pub fn prepare<'a>(device: &Device, x: impl Into<Source<'a>>, to: &Prepared) -> Result<()> {
    let x = x.into();
    check(x, to)?;
    to.of.check_layout(NAME, device)?;
    match to.of.of_columns {
        _ if to.of.rows == 0 => Ok(()),
        true => prepare_columns(device, x, to, &Counted::ALL),
        false => prepare_rows(device, x, to),
    }
}

fn check(x: Source<'_>, to: &Prepared) -> Result<()> {
    let s = to.of;
    s.check_sizes(NAME)?;
    let columns = if s.of_columns { s.columns() } else { s.k };
    let rows = (s.rows * s.k).checked_div(columns).unwrap_or(0);
    x.check(NAME, s.reach(), [rows, columns])?;
    check_dtype(NAME, "digits", &to.digits, DType::I8)?;
    check_dtype(NAME, "exponents", &to.exponents, DType::I32)?;
    check_len(NAME, "digits", &to.digits, s.digits_len())?;
    check_len(NAME, "exponents", &to.exponents, s.exponents_len())?;
    check_that!(NAME, s.piece == PIECE || s.of_columns =>
        "rows with one exponent are the columns of matrices")?;
    check_that!(NAME, s.piece == PIECE || s.k <= LONGEST =>
        "a sum of {} terms with one exponent, expected at most {LONGEST}; more shards have fewer",
        s.k)?;
    check_indexable(NAME, "x", s.reach().max(s.rows * s.k))
}

fn prepare_rows(device: &Device, x: Source<'_>, to: &Prepared) -> Result<()> {
    let s = to.of;
    let push = push!(rows_shader =>
        rows: s.rows, k: s.k, words: s.padded() / 4, matrix_rows: s.columns(), stride: s.stride);
    let Some(shader) = SHADERS.get(x.index()) else {
        let reason = "rows of a norm's result are prepared by the norm".to_owned();
        return check_that(NAME, false, || reason);
    };
    // A piece's threads hold all of it.
    let words = s.padded().min(PIECE) / 4;
    let threads = if words > 256 { 128 } else { 32 };
    let held = words.div_ceil(threads).max(1);
    let kernel = Kernel::new("prepare_integer_rows", shader)
        .constants([two_digits(&s), vectors([s.k, s.stride])])
        .constants(constants!(2: threads, held))
        .constants([in_pieces(&s)])
        .constants(x.kind().as_slice())
        .reads([x.first()])
        .writes(to.written())
        .bind_all(x.bindings());
    let groups = s.exponents_len().div_ceil(THREADS / threads);
    let values = x.on_the_cpu(s.k);
    kernel.launch_bound(device, push, groups, move |bindings| {
        let (read, mut written) = bindings.split_all();
        let [digits, exponents] = &mut written[..] else {
            return;
        };
        cpu::prepare(&values(read[0], &read[1..]), digits, exponents, &s, None);
    })
}

/// The constant WIDE.
fn two_digits(s: &Preparation) -> (u32, u32) {
    (0, u32::from(s.n_digits == Digits::Two))
}

/// The constant IN_PIECES.
fn in_pieces(s: &Preparation) -> (u32, u32) {
    (15, s.in_pieces())
}

/// The constant COLUMN_PIECE.
fn piece(s: &Preparation) -> (u32, u32) {
    (8, s.piece as u32)
}

/// The constant VECTORS, for rows of this many numbers in memory and matrices this far apart.
fn vectors(numbers: [usize; 2]) -> (u32, u32) {
    let whole = numbers.iter().all(|n| n.is_multiple_of(4));
    (1, u32::from(whole))
}
