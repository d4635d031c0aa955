//! Products of digits of 8 bits: the sums of both digits of A, each exact in 32 bits however long the piece, so that nothing
//! is carried. By the dot product of four bytes (VNNI) and by AMX's matrices.

mod amx;
mod vnni;

use std::fmt;
use std::ops::Range;

use hlx_core::cpu::SimdLevel;

use super::super::turn::turn;
use super::{Product, Rectangle, Scratch, results_of_digits};

/// Terms of a block: a panel of 32 columns is 64 KiB, and the sums of a tile are read and written once a block.
const BLOCK: usize = 2048;
/// Rows and columns of a tile at most.
const MAX_TILE: [usize; 2] = [16, 32];

/// Sixteen words in a line of the cache.
#[derive(Clone, Copy, Default, bytemuck::Pod, bytemuck::Zeroable)]
#[repr(C, align(64))]
pub(super) struct Line([i32; 16]);

/// The instructions that multiply digits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in super::super) enum Digits {
    /// Vectors of eight sums.
    AvxVnni,
    /// Of sixteen.
    Avx512Vnni,
    /// Matrices of 16 x 16 sums.
    Amx,
}

/// A block of digits in the order in which a tile reads it, both operands.
struct Packed<'a> {
    left: &'a [i32],
    right: &'a [i32],
    /// Terms, a multiple of 64 above zero.
    k: usize,
    /// The sums begin with this block.
    begins: bool,
}

/// The memory of a rectangle.
#[derive(Default)]
pub(super) struct DigitScratch {
    left: Vec<Line>,
    right: Vec<Line>,
    /// Of each tile, \[2, rows, columns\]; of one alone where a block is all there is.
    sums: Vec<Line>,
    /// What the sums of either digit of a row are too large by.
    excess: Vec<[i32; 2]>,
}

impl DigitScratch {
    pub const fn new() -> Self {
        Self {
            left: Vec::new(),
            right: Vec::new(),
            sums: Vec::new(),
            excess: Vec::new(),
        }
    }
}

impl fmt::Display for Digits {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::AvxVnni => "AVX-VNNI",
            Self::Avx512Vnni => "AVX-512 VNNI",
            Self::Amx => "AMX",
        })
    }
}

impl Digits {
    /// What this processor has at the level, the slowest first.
    pub fn of(level: SimdLevel) -> Vec<Self> {
        let wide = level == SimdLevel::Avx512;
        let has = [
            (
                Self::AvxVnni,
                (wide || level == SimdLevel::Avx2) && is_x86_feature_detected!("avxvnni"),
            ),
            (
                Self::Avx512Vnni,
                wide && is_x86_feature_detected!("avx512vnni"),
            ),
            (Self::Amx, wide && amx::is_granted()),
        ];
        let has = has.into_iter().filter(|(_, has)| *has);
        has.map(|(digits, _)| digits).collect()
    }

    /// The other instructions that the processor has with these.
    const fn level(self) -> SimdLevel {
        match self {
            Self::AvxVnni => SimdLevel::Avx2,
            Self::Avx512Vnni | Self::Amx => SimdLevel::Avx512,
        }
    }

    /// Rows and columns of a tile.
    pub const fn tile(self) -> [usize; 2] {
        match self {
            Self::AvxVnni => [3, 16],
            Self::Avx512Vnni => [6, 32],
            Self::Amx => MAX_TILE,
        }
    }

    /// The digits of a row of A in its strip, and what its sums become too large by.
    fn pack_row(self, row: usize, digits: [&[i8]; 2], strip: &mut [i32]) -> [i32; 2] {
        match self {
            Self::Amx => {
                amx::pack_row(row, digits, strip);
                [0; 2]
            }
            _ => vnni::pack_row(self.tile()[0], row, digits, strip),
        }
    }

    /// The digits of rows of B, each a column of the tile, in their panel.
    fn pack_columns(self, columns: &[&[i8]], panel: &mut [i32]) {
        let [_, width] = self.tile();
        // AVX-VNNI and AVX-512 VNNI: [k / 4, columns]; AMX: [k / 64, 2, 16, 16 columns].
        let (flipped, block, row, matrix) = match self {
            Self::Amx => (0, 16 * width, 16, 256),
            _ => (vnni::UNSIGNED, 16 * width, width, 16),
        };
        for (i, columns) in columns.chunks(16).enumerate() {
            // A column that there is not repeats the first.
            let of_chunk = |column: usize| *columns.get(column).unwrap_or(&columns[0]);
            let columns: [&[i8]; 16] = std::array::from_fn(of_chunk);
            turn(
                self.level(),
                columns,
                flipped,
                [block, row],
                &mut panel[i * matrix..],
            );
        }
    }

    /// Adds a block's products to the sums of a tile, or begins them.
    fn multiply(self, packed: &Packed<'_>, sums: &mut [i32]) {
        let [rows, columns] = self.tile();
        assert!(sums.len() >= 2 * rows * columns);
        assert!(packed.k > 0 && packed.k.is_multiple_of(64));
        assert!(packed.left.len() >= rows * 2 * packed.k / 4);
        assert!(packed.right.len() >= columns * packed.k / 4);
        // SAFETY: the processor has the instructions, and the lengths are those asserted.
        unsafe {
            match self {
                Self::AvxVnni => vnni::avx(packed, sums),
                Self::Avx512Vnni => vnni::avx512(packed, sums),
                Self::Amx => amx::multiply(packed, sums),
            }
        }
    }
}

impl Product<'_> {
    /// The results of a piece of a rectangle.
    pub(super) fn piece_of_digits(
        &self,
        digits: Digits,
        of: &Rectangle,
        piece: usize,
        terms: Range<usize>,
        scratch: &mut Scratch,
    ) {
        let [height, width] = digits.tile();
        let of_rows = || of.rows.clone().step_by(height);
        let of_columns = || of.columns.clone().step_by(width);
        let mut own = std::mem::take(&mut scratch.digits);
        let tile_words = 2 * height * width;
        let one_block = terms.len() <= BLOCK;
        let n_tiles = match one_block {
            true => 1,
            false => of_rows().len() * of_columns().len(),
        };
        own.sums.resize(n_tiles * tile_words / 16, Line::default());
        own.excess.clear();
        own.excess.resize(of.rows.len(), [0; 2]);
        let blocks = terms.clone().step_by(BLOCK);
        let configured = (digits == Digits::Amx).then(amx::Configured::new);
        for start in blocks {
            let block = start..terms.end.min(start + BLOCK);
            let is_last = block.end == terms.end;
            let k = block.len();
            let (strip_words, panel_words) = (height * 2 * k / 4, width * k / 4);
            // Rows and columns past the edge keep what was there: their sums are not read.
            let strips_words = of_rows().len() * strip_words;
            own.left.resize(strips_words.div_ceil(16), Line::default());
            own.right.resize(panel_words.div_ceil(16), Line::default());
            let left: &mut [i32] = bytemuck::cast_slice_mut(&mut own.left);
            for (i, row) in of.rows.clone().enumerate() {
                let strip = &mut left[i / height * strip_words..][..strip_words];
                let both = self.a_digits(of.product, row, &block);
                let excess = digits.pack_row(i % height, both, strip);
                for (sum, excess) in own.excess[i].iter_mut().zip(excess) {
                    *sum = sum.wrapping_add(excess);
                }
            }
            for (across, first) in of_columns().enumerate() {
                let columns = first..of.columns.end.min(first + width);
                let right: &mut [i32] = bytemuck::cast_slice_mut(&mut own.right);
                let mut of_b: [&[i8]; MAX_TILE[1]] = [&[]; _];
                for (digits, column) in of_b.iter_mut().zip(columns.clone()) {
                    *digits = self.b_digits(of.product, column, &block);
                }
                digits.pack_columns(&of_b[..columns.len()], right);
                let mut factors = [[0.0; MAX_TILE[1]]; 2];
                for (i, column) in columns.clone().enumerate() {
                    let factors_of = self.factors_of(1, of.product, column, piece);
                    [factors[0][i], factors[1][i]] = factors_of;
                }
                for (down, first_row) in of_rows().enumerate() {
                    let at = if one_block {
                        0
                    } else {
                        across * of_rows().len() + down
                    };
                    let sums: &mut [i32] = bytemuck::cast_slice_mut(&mut own.sums);
                    let sums = &mut sums[at * tile_words..][..tile_words];
                    let packed = Packed {
                        left: &left[down * strip_words..][..strip_words],
                        right,
                        k,
                        begins: start == terms.start,
                    };
                    digits.multiply(&packed, sums);
                    if is_last {
                        let rows = first_row..of.rows.end.min(first_row + height);
                        let excess = &own.excess[down * height..];
                        let tile = Tile {
                            product: of.product,
                            rows,
                            columns: &columns,
                            factors: &factors,
                            width,
                        };
                        self.finish_tile(&tile, piece, (sums, excess), &mut scratch.results);
                    }
                }
            }
        }
        drop(configured);
        scratch.digits = own;
    }

    /// Turns the sums of a tile into results and stores them.
    fn finish_tile(
        &self,
        of: &Tile<'_>,
        piece: usize,
        (sums, excess): (&[i32], &[[i32; 2]]),
        values: &mut Vec<f32>,
    ) {
        let mut of_rows = [[0.0; 2]; MAX_TILE[0]];
        for (factors, row) in of_rows.iter_mut().zip(of.rows.clone()) {
            *factors = self.factors_of(0, of.product, row, piece);
        }
        let (n_rows, width) = (of.rows.len(), of.width);
        let of_columns = of.factors.each_ref().map(|factors| &factors[..]);
        values.resize(n_rows * width, 0.0);
        results_of_digits(sums, excess, &of_rows[..n_rows], of_columns, width, values);
        for (row, values) in of.rows.clone().zip(values.chunks_exact_mut(width)) {
            let values = &mut values[..of.columns.len()];
            self.finish_row((of.product, row), of.columns, piece, values);
        }
    }
}

/// A tile of one of the products.
struct Tile<'a> {
    product: usize,
    rows: Range<usize>,
    columns: &'a Range<usize>,
    /// Of the columns.
    factors: &'a [[f32; MAX_TILE[1]]; 2],
    /// Sums of a row.
    width: usize,
}
