//! The columns of groups of a matrix's rows, which the device alone knows, as integers: each group is a piece with
//! exponents of its own.

use bytemuck::cast_slice;
use hlx_core::{Binding, Buffer, DType, Device, as_u32};

use super::super::GRANULE;
use super::super::specification::Digits;
use super::columns::{Beside, Counted, TRANSPOSED_TILE};
use super::cpu::{self, Piece};
use super::{Preparation, Prepared, two_digits, vectors};
use crate::Result;
use crate::elementwise::fill;
use crate::error::{check_indexable, check_len, check_sizes};
use crate::kernel::Kernel;

shader!(integer::{group_tops as tops_shader, prepare_group_columns as columns_shader});

const NAME: &str = "prepare_integers_of_groups";
/// Rows and columns of a workgroup that looks for the largest magnitudes.
const SCANNED: [usize; 2] = [128, 128];

/// Groups of the rows of a matrix: bounds, u32, those of group g from the g-th to the next.
#[derive(Clone, Copy)]
pub(crate) struct Groups<'a> {
    pub bounds: &'a Buffer,
    pub count: usize,
}

impl Groups<'_> {
    /// Digits of a column of `rows` rows. Those of group g begin at 64 (bounds\[g\] / 64 + g), the division rounded down:
    /// the groups before it have no more, each filled up to a multiple of 64.
    pub fn padded(&self, rows: usize) -> usize {
        (rows / GRANULE + self.count) * GRANULE
    }
}

impl Prepared {
    /// Allocates the columns of groups of `x`, \[rows, columns\], and prepares them: exponents are \[columns, groups\]. With
    /// `beside` only those rows enter the largest magnitudes whose row of the other operand is not zeros alone.
    ///
    /// # Errors
    /// If a buffer has another type or length, and if there is no memory.
    pub(crate) fn columns_of_groups(
        device: &Device,
        x: &Buffer,
        [rows, columns]: [usize; 2],
        n_digits: Digits,
        groups: Groups<'_>,
        beside: Option<Beside<'_>>,
    ) -> Result<Self> {
        check_sizes(NAME, &[rows, columns])?;
        check_sizes(NAME, &[columns, groups.count])?;
        let of = Preparation::of_rows(columns, groups.padded(rows), n_digits);
        of.check_sizes(NAME)?;
        let prepared = Self {
            digits: device.alloc_typed(DType::I8, of.digits_len())?,
            exponents: device.alloc_shape_typed(DType::I32, &[columns, groups.count])?,
            of,
        };
        check_len(NAME, "x", x, [rows, columns])?;
        check_len(NAME, "bounds", groups.bounds, groups.count + 1)?;
        let largest = (rows * columns).max(of.digits_len());
        check_indexable(NAME, "an operand", largest)?;
        if prepared.digits.is_empty() {
            return Ok(prepared);
        }
        let counted = match beside {
            Some(other) => Counted::new(device, other, rows)?,
            None => Counted::ALL,
        };
        launch(device, x, &prepared, [rows, columns], groups, &counted)?;
        Ok(prepared)
    }
}

fn launch(
    device: &Device,
    x: &Buffer,
    to: &Prepared,
    [rows, columns]: [usize; 2],
    groups: Groups<'_>,
    counted: &Counted,
) -> Result<()> {
    let words = to.of.padded() / 4;
    let push = push!(columns_shader => rows, columns, groups: groups.count, words);
    let tops = device.alloc_typed(DType::U32, to.exponents.len())?;
    let counts = counted.exponents.as_ref();
    if !device.is_cpu() {
        fill(device, 0.0, &tops)?;
        let tiles = rows.div_ceil(SCANNED[0]) * columns.div_ceil(SCANNED[1]);
        Kernel::new("integer_tops_of_groups", &tops_shader::SHADER)
            .constants([vectors([columns, 0]), counted.constant()])
            .bind_all([x, groups.bounds].map(Binding::Read))
            .updates([&tops])
            .reads_if(counts)
            .launch_on_gpu(device, push, tiles.max(1))?;
    }
    let of = to.of;
    // The CPU, which finds the largest magnitudes by itself, reads the rows that count in their place.
    let third = if device.is_cpu() { counts } else { Some(&tops) };
    let kernel = Kernel::new(NAME, &columns_shader::SHADER)
        .constants([two_digits(&of), vectors([columns, 0])])
        .bind_all([x, groups.bounds].map(Binding::Read))
        .reads_if(third)
        .writes(to.written());
    let tiles = of.padded().div_ceil(TRANSPOSED_TILE[0]) * columns.div_ceil(TRANSPOSED_TILE[1]);
    let counted_pieces = counted.pieces;
    kernel.launch(device, push, tiles, move |read, [digits, exponents]| {
        let [x, bounds, counted] = read;
        let counted = (counted_pieces > 0).then(|| (cast_slice(counted), counted_pieces));
        let piece = |(group, bound): (usize, &[u32])| {
            let end = (bound[1] as usize).min(rows);
            let first = (bound[0] as usize).min(end);
            Piece {
                rows: first..end,
                to: (first / GRANULE + group) * GRANULE,
            }
        };
        let pieces: Vec<Piece> = as_u32(bounds).windows(2).enumerate().map(piece).collect();
        let s = Preparation::of_columns(1, of.k, columns, of.n_digits);
        cpu::prepare_pieces(x, digits, exponents, &s, &pieces, counted);
    })
}
