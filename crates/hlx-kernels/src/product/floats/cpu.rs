//! The product on the CPU: rectangles of C in parallel, each packed and blocked for the caches.
//!
//! Only C is divided among threads. Blocks of k store a partial C and read it back, which is
//! exact, so neither the blocks, nor the rectangles, nor the instruction set change a bit.

use std::ops::Range;

use super::halves::{Binary16, Brain16};
use super::pack::{Matrices, Panel, Part, Source};
use super::tile;
use super::tile::{Start, Stretch, Tiles};
use crate::parallel;
use crate::product::rectangles::{Rectangle, Target, parts};
use crate::product::shape::MatMul;
use hlx_core::DType;
use hlx_core::cpu::SimdLevel;

/// Terms of the chain between two visits to C: a panel of B (32 columns) then fills 48 KiB.
const K_BLOCK: usize = 384;
/// Rows of A packed at a time, in register tiles: 16 tiles of 14 rows and 384 k are 336 KiB, a
/// sixth of a 2 MiB second-level cache.
const A_TILES: usize = 16;
/// Columns of a rectangle at most: 512 columns of 384 k are 768 KiB of packed B.
const MAX_COLUMNS: usize = 512;
/// Rows of a rectangle at most.
const MAX_ROWS: usize = 1024;
/// Multiply-adds below which a rectangle is not worth its own task (about 30 us).
const MIN_TASK_WORK: usize = 1 << 21;
/// At most this many rows of A, in register tiles, are multiplied with B where it lies: packing
/// B would cost more than it saves.
const UNPACKED_TILES: usize = 2;

/// The product's operands; `c` is what tasks write, each its own rectangle.
#[derive(Clone, Copy)]
struct Product<'a, A, B> {
    shape: &'a MatMul,
    tiles: Tiles,
    a: A,
    b: B,
    bias: Option<&'a [f32]>,
    c: Target,
}

/// Computes the product; shapes have been checked by the launcher. B comes as words and the type of
/// its elements: f32, f16 or bf16.
pub(crate) fn matmul(
    level: SimdLevel,
    shape: &MatMul,
    a: &[f32],
    b: (&[f32], DType),
    bias: Option<&[f32]>,
    c: &mut [f32],
) {
    let (b, b_type) = b;
    let s = shape;
    let b_row = if s.trans_b { s.k } else { s.n };
    let a_row = if s.trans_a { s.m } else { s.k };
    let a = Matrices::<f32>::new(a, s.stride_a, a_row, !s.trans_a);
    let (stride, along_k) = (s.stride_b, s.trans_b);
    match b_type {
        DType::F16 => {
            let b = Matrices::<Binary16>::new(b, stride, b_row, along_k);
            matmul_of(level, shape, a, b, bias, c);
        }
        DType::BF16 => {
            let b = Matrices::<Brain16>::new(b, stride, b_row, along_k);
            matmul_of(level, shape, a, b, bias, c);
        }
        _ => {
            let b = Matrices::<f32>::new(b, stride, b_row, along_k);
            matmul_of(level, shape, a, b, bias, c);
        }
    }
}

/// Computes the product of operands that need not lie in memory; of the shape, the transposes and
/// strides of A and B count for nothing.
pub(crate) fn matmul_of<A: Source, B: Source>(
    level: SimdLevel,
    shape: &MatMul,
    a: A,
    b: B,
    bias: Option<&[f32]>,
    c: &mut [f32],
) {
    let tiles = tiles_of(level);
    let product = Product {
        shape,
        tiles,
        a,
        b,
        bias,
        c: Target::new(c),
    };
    match &mut divide(shape, &tiles, hlx_core::cpu::threads_of_launch())[..] {
        [one] => product.rectangle(one),
        several => parallel::each(several, |of| product.rectangle(of)),
    }
}

/// The register tiles of a level.
pub(super) fn tiles_of(level: SimdLevel) -> Tiles {
    match level {
        #[cfg(target_arch = "x86_64")]
        SimdLevel::Avx512 => tile::avx512::TILES,
        #[cfg(target_arch = "x86_64")]
        SimdLevel::Avx2 => tile::avx2::TILES,
        #[cfg(target_arch = "aarch64")]
        SimdLevel::Neon => tile::neon::TILES,
        _ => tile::portable::TILES,
    }
}

/// Divides C into rectangles of whole register tiles: at least three per thread where the work
/// allows, so that a thread held up elsewhere delays the others little.
fn divide(shape: &MatMul, tiles: &Tiles, threads: usize) -> Vec<Rectangle> {
    let whole = |x: usize, unit: usize| x.div_ceil(unit) * unit;
    let mut rows = shape.m.min(MAX_ROWS);
    let mut columns = shape.n.min(MAX_COLUMNS);
    let wanted = if threads == 1 { 1 } else { 3 * threads };
    loop {
        let count = shape.batch * shape.m.div_ceil(rows) * shape.n.div_ceil(columns);
        let splits_rows = rows > columns && rows > 2 * tiles.rows;
        let splittable = splits_rows || columns > 2 * tiles.columns;
        if count >= wanted || !splittable || rows * columns * shape.k < 2 * MIN_TASK_WORK {
            break;
        }
        if splits_rows {
            rows = rows.div_ceil(2);
        } else {
            columns = columns.div_ceil(2);
        }
    }
    let most = [whole(rows, tiles.rows), whole(columns, tiles.columns)];
    Rectangle::all([shape.batch, shape.m, shape.n], most)
}

impl<A: Source, B: Source> Product<'_, A, B> {
    fn rectangle(&self, of: &Rectangle) {
        let k_block = self.shape.k.min(K_BLOCK);
        let a_len = (k_block * A_TILES * self.tiles.rows).next_multiple_of(16);
        let columns = of.columns.len().next_multiple_of(self.tiles.columns);
        let staged_len = self.b.staged_len(of.columns.len(), k_block);
        let len = staged_len.next_multiple_of(16) + a_len + k_block * columns;
        parallel::scratch(len, |floats: &mut [f32]| {
            let (a_packed, floats) = floats.split_at_mut(a_len);
            let (b_packed, staged) = floats.split_at_mut(k_block * columns);
            // A chain without terms has a start and an end, too.
            for first in (0..self.shape.k.max(1)).step_by(k_block.max(1)) {
                let terms = first..self.shape.k.min(first + k_block);
                let part = Part {
                    batch_idx: of.matrix,
                    vectors: &of.columns,
                    terms: &terms,
                };
                self.b.stage(&part, staged);
                self.k_block(of, &part, staged, a_packed, b_packed);
            }
        });
    }

    /// Continues every chain of the rectangle over one block of k.
    fn k_block(
        &self,
        of: &Rectangle,
        part: &Part<'_>,
        staged: &[f32],
        a_packed: &mut [f32],
        b_packed: &mut [f32],
    ) {
        let terms = part.terms;
        let (height, width, k_count) = (self.tiles.rows, self.tiles.columns, terms.len());
        let few_rows = of.rows.len() <= UNPACKED_TILES * height;
        let unpacked = self.b.in_place(of.matrix).filter(|_| few_rows);
        // Panels that several blocks of A read are packed beforehand, each in its place; others just
        // before they are read, all in the first place, which stays in the first-level cache.
        let packs_first = of.rows.len() > A_TILES * height;
        let place = |columns: &Range<usize>| match packs_first {
            true => (columns.start - of.columns.start) * k_count,
            false => 0,
        };
        let pack = |columns: &Range<usize>, b_packed: &mut [f32]| {
            if unpacked.is_none() || columns.len() < width {
                let panel = Panel::new(columns, terms, width);
                let to = &mut b_packed[place(columns)..];
                self.b.pack(part, staged, panel, to);
            }
        };
        if packs_first {
            parts(&of.columns, width).for_each(|columns| pack(&columns, b_packed));
        }
        for block in parts(&of.rows, A_TILES * height) {
            for rows in parts(&block, height) {
                if self.a.packed(of.matrix, &rows, terms).is_none() {
                    let panel = Panel::new(&rows, terms, rows.len());
                    let to = &mut a_packed[(rows.start - block.start) * k_count..];
                    let part = Part {
                        vectors: &block,
                        ..*part
                    };
                    self.a.pack(&part, &[], panel, to);
                }
            }
            for columns in parts(&of.columns, width) {
                if !packs_first {
                    pack(&columns, b_packed);
                }
                let (b, b_stride) = match unpacked {
                    Some(b) if columns.len() == width => {
                        let first = terms.start * b.stride + columns.start;
                        (&b.data[first.min(b.data.len())..], b.stride)
                    }
                    _ => (&b_packed[place(&columns)..], width),
                };
                for rows in parts(&block, height) {
                    let packed = self.a.packed(of.matrix, &rows, terms);
                    let a = packed.unwrap_or(&a_packed[(rows.start - block.start) * k_count..]);
                    let target = Rectangle {
                        matrix: of.matrix,
                        rows,
                        columns: columns.clone(),
                    };
                    self.tile(&target, terms, a, b, b_stride);
                }
            }
        }
    }

    /// Runs one register tile, through a copy where C ends before the tile does.
    fn tile(
        &self,
        target: &Rectangle,
        terms: &Range<usize>,
        a: &[f32],
        b: &[f32],
        b_stride: usize,
    ) {
        let (s, k) = (self.shape, terms.len());
        let [rows, columns] = [target.rows.len(), target.columns.len()];
        let at = target.matrix * s.stride_c + target.rows.start * s.n + target.columns.start;
        assert!(a.len() >= k * rows);
        assert!(k == 0 || b.len() >= (k - 1) * b_stride + columns);
        let stretch = Stretch {
            k,
            a: a.as_ptr(),
            b: b.as_ptr(),
            b_stride,
            c: self.c.at(at, (rows - 1) * s.n + columns),
            c_stride: s.n,
            start: match self.bias {
                _ if terms.start > 0 || s.accumulate => Start::Stored,
                Some(bias) => Start::Row(bias[target.columns.clone()].as_ptr()),
                None => Start::Zero,
            },
            last: terms.end == s.k,
        };
        let half = self.tiles.columns / 2;
        // SAFETY: the tile functions are those of an instruction set that this processor has;
        // the assertions cover A, B (whose edge panels are packed to the full width) and C.
        unsafe {
            if columns == self.tiles.columns {
                self.run(rows, true, &stretch);
            } else if columns == half {
                self.run(rows, false, &stretch);
            } else {
                self.edge([rows, columns], stretch);
            }
        }
    }

    /// Runs the tile function of `rows` rows and, with `two`, of two vectors of columns.
    ///
    /// # Safety
    /// As that function.
    #[cfg(not(target_arch = "aarch64"))]
    unsafe fn run(&self, rows: usize, two: bool, stretch: &Stretch) {
        // SAFETY: the caller guarantees the ranges.
        unsafe { self.tiles.function(rows, two)(stretch) }
    }

    /// Runs the tile function of `rows` rows and, with `two`, of two vectors of columns; again from
    /// the old C and exactly, if NEON flushed a result ([`underflow`](hlx_core::underflow)).
    ///
    /// # Safety
    /// As that function.
    #[cfg(target_arch = "aarch64")]
    unsafe fn run(&self, rows: usize, two: bool, stretch: &Stretch) {
        use hlx_core::underflow::watch;

        let function = self.tiles.function(rows, two);
        let columns = if two {
            self.tiles.columns
        } else {
            self.tiles.columns / 2
        };
        let mut old = [0.0f32; 12 * 8];
        // SAFETY: the caller guarantees the ranges; `old` holds the largest tile.
        unsafe {
            let row = |i: usize| stretch.c.add(i * stretch.c_stride);
            if matches!(stretch.start, Start::Stored) {
                for (i, old) in old.chunks_exact_mut(8).take(rows).enumerate() {
                    row(i).copy_to_nonoverlapping(old.as_mut_ptr(), columns);
                }
            }
            let ((), flushed) = watch(|| function(stretch));
            if flushed {
                if matches!(stretch.start, Start::Stored) {
                    for (i, old) in old.chunks_exact(8).take(rows).enumerate() {
                        row(i).copy_from_nonoverlapping(old.as_ptr(), columns);
                    }
                }
                tile::neon_exact::TILES.function(rows, two)(stretch);
            }
        }
    }

    /// Runs a tile whose columns are no whole vectors on a copy of C.
    ///
    /// # Safety
    /// As the tile functions, for `rows` rows and `columns` columns of C and of the bias.
    unsafe fn edge(&self, [rows, columns]: [usize; 2], mut stretch: Stretch) {
        let width = self.tiles.columns;
        let mut copy = [0.0f32; 14 * 32];
        let (c, c_stride) = (stretch.c, stretch.c_stride);
        // SAFETY: `copy` holds the largest tile; the caller guarantees C and the bias.
        unsafe {
            for i in 0..rows {
                let from = match stretch.start {
                    Start::Zero => break,
                    Start::Row(row) => row,
                    Start::Stored => c.add(i * c_stride).cast_const(),
                };
                from.copy_to_nonoverlapping(copy[i * width..].as_mut_ptr(), columns);
            }
            stretch.start = Start::Stored;
            stretch.c = copy.as_mut_ptr();
            stretch.c_stride = width;
            self.run(rows, columns > width / 2, &stretch);
            for i in 0..rows {
                let from = copy[i * width..].as_ptr();
                from.copy_to_nonoverlapping(c.add(i * c_stride), columns);
            }
        }
    }
}
