//! The quantised columns of matrices, alone or with the matrices' rows: the largest magnitudes first, then the digits, which are transposed.

use bytemuck::cast_slice;
use hlx_core::{Binding, Buffer, DType, Device, Shader};

use super::{
    NAME, Preparation, Prepared, ROWS, Source, check, cpu, in_pieces, piece, prepare, two_digits,
    vectors,
};
use crate::Result;
use crate::elementwise::fill;
use crate::error::check_len;
use crate::kernel::{Kernel, PushConstants};

shader!(integer::{
    counted_rows as counted_shader, column_tops as tops_shader,
    column_tops_of_activation as tops_of_activation, column_tops_of_gated as tops_of_gated,
    column_tops_of_layer_norm as tops_of_layer_norm, column_tops_of_rms_norm as tops_of_rms_norm,
    prepare_columns as columns_shader, prepare_columns_of_activation as of_activation,
    prepare_columns_of_gated as of_gated, prepare_columns_of_layer_norm as of_layer_norm,
    prepare_columns_of_rms_norm as of_rms_norm, row_and_column_tops as both_tops_shader,
    prepare_rows_and_columns as both_shader,
});

/// The shaders of columns, and of their largest magnitudes, by [`Source::index`].
static SHADERS: [&Shader; 5] = [
    &columns_shader::SHADER,
    &of_activation::SHADER,
    &of_gated::SHADER,
    &of_layer_norm::SHADER,
    &of_rms_norm::SHADER,
];
static TOPS: [&Shader; 5] = [
    &tops_shader::SHADER,
    &tops_of_activation::SHADER,
    &tops_of_gated::SHADER,
    &tops_of_layer_norm::SHADER,
    &tops_of_rms_norm::SHADER,
];

/// Rows and columns of a workgroup that looks for the largest magnitudes, and of one that transposes the digits.
const SCANNED: [usize; 2] = [64, 128];
pub(super) const TRANSPOSED_TILE: [usize; 2] = [128, 32];
/// Tiles of [`TRANSPOSED_TILE`] rows that a workgroup has at most of a column whose largest magnitude it finds by itself.
const OWN_TILES: usize = 2;

/// The rows of the operand that columns are multiplied with.
#[derive(Clone, Copy)]
pub enum Beside<'a> {
    /// As integers: their exponents tell which rows are zeros.
    Prepared(&'a Prepared),
    /// As they are, with their width.
    Values(&'a Buffer, usize),
}

/// Which rows of matrices count: those that have a piece whose exponent is not that of zeros, if there are exponents.
pub(super) struct Counted {
    /// i32, \[rows, pieces\].
    pub(super) exponents: Option<Buffer>,
    pub(super) pieces: usize,
}

impl Counted {
    /// All rows count.
    pub(super) const ALL: Self = Self {
        exponents: None,
        pieces: 0,
    };

    /// The constant of tops.
    pub(super) fn constant(&self) -> (u32, u32) {
        (3, self.pieces as u32)
    }

    /// Of an operand with this many rows.
    pub(super) fn new(device: &Device, other: Beside<'_>, rows: usize) -> Result<Self> {
        let (exponents, pieces) = match other {
            Beside::Prepared(Prepared { exponents, of, .. }) => {
                check_that!(NAME, !of.of_columns && of.rows == rows =>
                    "{of:?} has not {rows} rows")?;
                (exponents.clone(), of.pieces())
            }
            Beside::Values(other, width) => {
                check_len(NAME, "the other operand", other, [rows, width])?;
                (counted_rows(device, other, [rows, width])?, 1)
            }
        };
        let exponents = Some(exponents);
        Ok(Self { exponents, pieces })
    }
}

/// Writes the integers of the rows of matrices `x`, \[outer, k, columns\] in f32, and of their columns, with the bits
/// of [`prepare`] for either; both together read x twice, not four times.
///
/// # Errors
/// As [`prepare`], and if the two are not the rows and columns of the same matrices.
pub fn prepare_rows_and_columns(device: &Device, x: &Buffer, to: [&Prepared; 2]) -> Result<()> {
    let [rows, columns] = to.map(|to| to.of);
    to.into_iter().try_for_each(|to| check(x.into(), to))?;
    let are_both = !rows.of_columns
        && columns.of_columns
        && (rows.rows, rows.k) == (columns.outer * columns.k, columns.columns());
    check_that!(NAME, are_both =>
        "{rows:?} and {columns:?} are not the rows and the columns of the same matrices")?;
    if rows.rows * columns.rows == 0 || columns.k <= OWN_TILES * TRANSPOSED_TILE[0] {
        // Two launches side by side, neither of which waits for the largest magnitudes.
        return to.into_iter().try_for_each(|to| prepare(device, x, to));
    }
    let sizes = push_of_columns(&columns, rows.padded());
    let tops = tops(device, x.into(), &columns, Some(&rows), &Counted::ALL)?;
    let across = columns.columns().max(rows.padded());
    let groups = columns.outer
        * columns.padded().div_ceil(TRANSPOSED_TILE[0])
        * across.div_ceil(TRANSPOSED_TILE[1]);
    let whole = vectors([columns.columns(), columns.stride]);
    let kernel = Kernel::new("prepare_integer_rows_and_columns", &both_shader::SHADER)
        .constants([
            two_digits(&columns),
            whole,
            (2, two_digits(&rows).1),
            piece(&columns),
            in_pieces(&columns),
            (16, rows.in_pieces()),
        ])
        .bind_all([x, &tops].map(Binding::Read))
        .writes(to[1].written())
        .writes(to[0].written());
    kernel.launch(device, sizes, groups, move |[x, _], written| {
        let [digits, exponents, row_digits, row_exponents] = written;
        cpu::prepare(x, row_digits, row_exponents, &rows, None);
        cpu::prepare(x, digits, exponents, &columns, None);
    })
}

/// Writes the integers of columns; the rows that count, if not all do, enter their largest magnitudes.
pub(super) fn prepare_columns(
    device: &Device,
    x: Source<'_>,
    to: &Prepared,
    counted: &Counted,
) -> Result<()> {
    let s = to.of;
    let sizes = push_of_columns(&s, 0);
    // Short columns are one workgroup's, which finds their largest magnitudes by itself.
    let own_tiles = match s.k.div_ceil(TRANSPOSED_TILE[0]) {
        tiles if tiles <= OWN_TILES && s.pieces() == 1 => tiles,
        _ => 0,
    };
    let tops = match own_tiles == 0 && !device.is_cpu() {
        true => Some(tops(device, x, &s, None, counted)?),
        false => None,
    };
    let down = match own_tiles {
        0 => s.padded().div_ceil(TRANSPOSED_TILE[0]),
        _ => 1,
    };
    let groups = s.outer * down * s.columns().div_ceil(TRANSPOSED_TILE[1]);
    // The CPU, which finds the largest magnitudes by itself, reads the rows that count in their place.
    let second = tops.as_ref().or(counted.exponents.as_ref());
    let whole = vectors([s.columns(), s.stride]);
    let (counted_pieces, values) = (counted.pieces, x.on_the_cpu(s.columns()));
    let kernel = Kernel::new("prepare_integer_columns", SHADERS[x.index()])
        .constants([two_digits(&s), whole, counted.constant()])
        .constants([(4, own_tiles as u32), piece(&s), in_pieces(&s)])
        .constants(x.kind().as_slice())
        .reads([x.first()])
        .reads_if(second)
        .writes(to.written())
        .bind_all(x.bindings());
    kernel.launch_bound(device, sizes, groups, move |bindings| {
        let (read, mut written) = bindings.split_all();
        let [digits, exponents] = &mut written[..] else {
            return;
        };
        let counted = (counted_pieces > 0).then(|| (cast_slice(read[1]), counted_pieces));
        cpu::prepare(&values(read[0], &read[2..]), digits, exponents, &s, counted);
    })
}

/// Which rows of `x`, \[rows, width\], are zeros alone: i32, the exponent of zeros, else 0.
fn counted_rows(device: &Device, x: &Buffer, [rows, width]: [usize; 2]) -> Result<Buffer> {
    let counted = device.alloc_typed(DType::I32, rows)?;
    let kernel = Kernel::new("integer_counted_rows", &counted_shader::SHADER)
        .constants([vectors([width, 0])])
        .reads([x])
        .writes([&counted]);
    let push = push!(counted_shader => rows, k: width);
    kernel.launch(device, push, rows.div_ceil(ROWS), move |[x], [counted]| {
        cpu::counted_rows(x, counted, width);
    })?;
    Ok(counted)
}

/// The sizes of columns, and of their matrices' rows of this many digits.
fn push_of_columns(s: &Preparation, row_padded: usize) -> PushConstants {
    push!(columns_shader =>
        outer: s.outer,
        k: s.k,
        columns: s.columns(),
        words: s.padded() / 4,
        row_words: row_padded / 4,
        stride: s.stride,
    )
}

/// The largest magnitudes of columns by pieces, u32, and behind them those of their matrices' rows. The CPU device finds
/// them when it prepares.
fn tops(
    device: &Device,
    x: Source<'_>,
    s: &Preparation,
    rows: Option<&Preparation>,
    counted: &Counted,
) -> Result<Buffer> {
    let of_rows = rows.map_or(0, Preparation::exponents_len);
    let tops = device.alloc_typed(DType::U32, s.exponents_len() + of_rows)?;
    if device.is_cpu() {
        return Ok(tops);
    }
    fill(device, 0.0, &tops)?;
    let sizes = push_of_columns(s, rows.map_or(0, Preparation::padded));
    let groups = s.outer * s.k.div_ceil(SCANNED[0]) * s.columns().div_ceil(SCANNED[1]);
    let whole = vectors([s.columns(), s.stride]);
    let shader = match rows {
        Some(_) => &both_tops_shader::SHADER,
        None => TOPS[x.index()],
    };
    let mut kernel = Kernel::new("integer_tops", shader)
        .constants([whole, counted.constant(), piece(s)])
        .constants(x.kind().as_slice())
        .reads([x.first()])
        .updates([&tops]);
    if rows.is_none() {
        kernel = kernel.reads_if(counted.exponents.as_ref());
    }
    let kernel = kernel.bind_all(x.bindings());
    kernel.launch_on_gpu(device, sizes, groups.max(1))?;
    Ok(tops)
}
