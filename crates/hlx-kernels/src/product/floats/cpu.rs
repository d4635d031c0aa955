//! The product on the CPU: rectangles of C in parallel, each packed and blocked for the caches.
//!
//! Only C is divided among threads. Blocks of k store a partial C and read it back, which is
//! exact, so neither the blocks, nor the rectangles, nor the instruction set change a bit.

use std::cell::Cell;

use rayon::prelude::*;

use super::MatMul;
use super::halves::{Binary16, Brain16};
use super::pack::{Matrices, Panel, Source};
use super::tile;
use super::tile::{Start, Step, Tiles};
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

/// Sixteen floats on a cache line of their own.
#[derive(Clone, Copy)]
#[repr(C, align(64))]
struct Line([f32; 16]);

thread_local! {
    /// Each thread's packing buffer, taken out while in use.
    static SCRATCH: Cell<Vec<Line>> = const { Cell::new(Vec::new()) };
}

/// The product's operands; `c` is what tasks write, each its own rectangle.
#[derive(Clone, Copy)]
struct Product<'a, A, B> {
    shape: &'a MatMul,
    tiles: Tiles,
    a: A,
    b: B,
    bias: Option<&'a [f32]>,
    c: CPointer,
    c_len: usize,
}

/// C, shared among tasks that write disjoint rectangles.
#[derive(Clone, Copy)]
struct CPointer(*mut f32);

// SAFETY: the pointer comes from one `&mut [f32]` that outlives every task, and the tasks'
// rectangles are disjoint.
unsafe impl Send for CPointer {}
// SAFETY: as for `Send`.
unsafe impl Sync for CPointer {}

/// A rectangle of one batch matrix of C.
#[derive(Clone, Copy)]
struct Rectangle {
    batch_idx: usize,
    row: usize,
    rows: usize,
    column: usize,
    columns: usize,
}

/// Computes the product; shapes have been checked by the launcher. B comes as words and the type of
/// its elements: f32, f16 or bf16.
pub(crate) fn matmul(
    level: SimdLevel,
    shape: &MatMul,
    a: &[f32],
    (b, b_type): (&[f32], DType),
    bias: Option<&[f32]>,
    c: &mut [f32],
) {
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
    let tiles = match level {
        #[cfg(target_arch = "x86_64")]
        SimdLevel::Avx512 => tile::avx512::TILES,
        #[cfg(target_arch = "x86_64")]
        SimdLevel::Avx2 => tile::avx2::TILES,
        #[cfg(target_arch = "aarch64")]
        SimdLevel::Neon => tile::neon::TILES,
        _ => tile::portable::TILES,
    };
    let product = Product {
        shape,
        tiles,
        a,
        b,
        bias,
        c_len: c.len(),
        c: CPointer(c.as_mut_ptr()),
    };
    let rectangles = divide(shape, &tiles, rayon::current_num_threads());
    if let [one] = rectangles[..] {
        product.rectangle(one);
    } else {
        rectangles
            .into_par_iter()
            .for_each(|rectangle| product.rectangle(rectangle));
    }
}

/// Divides C into rectangles of whole register tiles: at least three a thread where the work
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
    let (rows, columns) = (whole(rows, tiles.rows), whole(columns, tiles.columns));
    let mut all = Vec::new();
    for batch_idx in 0..shape.batch {
        for row in (0..shape.m).step_by(rows) {
            for column in (0..shape.n).step_by(columns) {
                all.push(Rectangle {
                    batch_idx,
                    row,
                    rows: rows.min(shape.m - row),
                    column,
                    columns: columns.min(shape.n - column),
                });
            }
        }
    }
    all
}

impl<A: Source, B: Source> Product<'_, A, B> {
    /// Computes one rectangle of C.
    fn rectangle(&self, rectangle: Rectangle) {
        let mut scratch = SCRATCH.take();
        let k_block = self.shape.k.min(K_BLOCK);
        let a_len = k_block * A_TILES * self.tiles.rows;
        let columns = rectangle.columns.next_multiple_of(self.tiles.columns);
        let lines = (a_len + k_block * columns).div_ceil(16) + 1;
        if scratch.len() < lines {
            scratch.resize(lines, Line([0.0; 16]));
        }
        // SAFETY: `Line` is sixteen floats without padding.
        let floats = unsafe {
            std::slice::from_raw_parts_mut(scratch.as_mut_ptr().cast::<f32>(), scratch.len() * 16)
        };
        let (a_packed, b_packed) = floats.split_at_mut(a_len.next_multiple_of(16));
        let mut k_first = 0;
        loop {
            let k_count = k_block.min(self.shape.k - k_first);
            self.k_block(rectangle, k_first, k_count, a_packed, b_packed);
            k_first += k_count;
            if k_first >= self.shape.k {
                break;
            }
        }
        SCRATCH.set(scratch);
    }

    /// Continues every chain of the rectangle over one block of k.
    fn k_block(
        &self,
        rectangle: Rectangle,
        k_first: usize,
        k_count: usize,
        a_packed: &mut [f32],
        b_packed: &mut [f32],
    ) {
        let Rectangle {
            batch_idx,
            row,
            rows,
            column,
            columns,
        } = rectangle;
        let few_rows = rows <= UNPACKED_TILES * self.tiles.rows;
        let unpacked = self.b.in_place(batch_idx).filter(|_| few_rows);
        let width = self.tiles.columns;
        let block = A_TILES * self.tiles.rows;
        // Panels that several blocks of A read are packed beforehand, each in its place; others just
        // before they are read, all in the first place, which stays in the first-level cache.
        let keeps = rows > block;
        let place = |j: usize| if keeps { j * k_count } else { 0 };
        let pack = |j: usize, b_packed: &mut [f32]| {
            let count = width.min(columns - j);
            if unpacked.is_none() || count < width {
                let panel = Panel {
                    first: column + j,
                    count,
                    k_first,
                    k_count,
                    width,
                };
                self.b.pack(batch_idx, panel, &mut b_packed[place(j)..]);
            }
        };
        if keeps {
            for j in (0..columns).step_by(width) {
                pack(j, b_packed);
            }
        }
        for i0 in (0..rows).step_by(block) {
            let block_rows = block.min(rows - i0);
            for i in (0..block_rows).step_by(self.tiles.rows) {
                let count = self.tiles.rows.min(block_rows - i);
                let first = row + i0 + i;
                let panel = Panel {
                    first,
                    count,
                    k_first,
                    k_count,
                    width: count,
                };
                self.a.pack(batch_idx, panel, &mut a_packed[i * k_count..]);
            }
            for j in (0..columns).step_by(width) {
                if !keeps {
                    pack(j, b_packed);
                }
                let (b_at, b_stride) = match unpacked {
                    Some(b) if width <= columns - j => {
                        let first = k_first * b.stride + column + j;
                        (&b.data[first.min(b.data.len())..], b.stride)
                    }
                    _ => (&b_packed[place(j)..], width),
                };
                for i in (0..block_rows).step_by(self.tiles.rows) {
                    let target = Rectangle {
                        batch_idx,
                        row: row + i0 + i,
                        rows: self.tiles.rows.min(block_rows - i),
                        column: column + j,
                        columns: width.min(columns - j),
                    };
                    let a_at = &a_packed[i * k_count..];
                    self.tile(target, k_first, k_count, a_at, (b_at, b_stride));
                }
            }
        }
    }

    /// Runs one register tile, through a copy where C ends before the tile does.
    fn tile(
        &self,
        target: Rectangle,
        k_first: usize,
        k_count: usize,
        a: &[f32],
        (b, b_stride): (&[f32], usize),
    ) {
        let s = self.shape;
        let at = target.batch_idx * s.stride_c + target.row * s.n + target.column;
        assert!(at + (target.rows - 1) * s.n + target.columns <= self.c_len);
        assert!(a.len() >= k_count * target.rows);
        assert!(k_count == 0 || b.len() >= (k_count - 1) * b_stride + target.columns);
        // SAFETY: the assertion above keeps the offset inside C.
        let c = unsafe { self.c.0.add(at) };
        let start = match self.bias {
            _ if k_first > 0 || s.accumulate => Start::Stored,
            Some(bias) => Start::Row(bias[target.column..][..target.columns].as_ptr()),
            None => Start::Zero,
        };
        let last = k_first + k_count == s.k;
        let (a, b) = (a.as_ptr(), b.as_ptr());
        let step = Step {
            k: k_count,
            a,
            b,
            b_stride,
            c,
            c_stride: s.n,
            start,
            last,
        };
        let half = self.tiles.columns / 2;
        // SAFETY: the tile functions are those of an instruction set that this processor has;
        // the assertions cover A, B (whose edge panels are packed to the full width) and C.
        unsafe {
            if target.columns == self.tiles.columns {
                self.run(target.rows, true, &step);
            } else if target.columns == half {
                self.run(target.rows, false, &step);
            } else {
                self.edge(target, step);
            }
        }
    }

    /// Runs the tile function of `rows` rows and, with `two`, of two vectors of columns.
    ///
    /// # Safety
    /// As that function.
    #[cfg(not(target_arch = "aarch64"))]
    unsafe fn run(&self, rows: usize, two: bool, step: &Step) {
        // SAFETY: the caller guarantees the ranges.
        unsafe { self.tiles.function(rows, two)(step) }
    }

    /// Runs the tile function of `rows` rows and, with `two`, of two vectors of columns; again from
    /// the old C and exactly, if NEON flushed a result ([`underflow`](hlx_core::underflow)).
    ///
    /// # Safety
    /// As that function.
    #[cfg(target_arch = "aarch64")]
    unsafe fn run(&self, rows: usize, two: bool, step: &Step) {
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
            let row = |i: usize| step.c.add(i * step.c_stride);
            if matches!(step.start, Start::Stored) {
                for (i, old) in old.chunks_exact_mut(8).take(rows).enumerate() {
                    row(i).copy_to_nonoverlapping(old.as_mut_ptr(), columns);
                }
            }
            let ((), flushed) = watch(|| function(step));
            if flushed {
                if matches!(step.start, Start::Stored) {
                    for (i, old) in old.chunks_exact(8).take(rows).enumerate() {
                        row(i).copy_from_nonoverlapping(old.as_ptr(), columns);
                    }
                }
                tile::neon_exact::TILES.function(rows, two)(step);
            }
        }
    }

    /// Runs a tile whose columns are no whole vectors on a copy of C.
    ///
    /// # Safety
    /// As the tile functions, for `target.columns` columns of C and of the bias.
    unsafe fn edge(&self, target: Rectangle, mut step: Step) {
        let width = self.tiles.columns;
        let mut copy = [0.0f32; 14 * 32];
        let (c, c_stride) = (step.c, step.c_stride);
        // SAFETY: `copy` holds the largest tile; the caller guarantees C and the bias.
        unsafe {
            for i in 0..target.rows {
                let from = match step.start {
                    Start::Zero => break,
                    Start::Row(row) => row,
                    Start::Stored => c.add(i * c_stride).cast_const(),
                };
                from.copy_to_nonoverlapping(copy[i * width..].as_mut_ptr(), target.columns);
            }
            step.start = Start::Stored;
            step.c = copy.as_mut_ptr();
            step.c_stride = width;
            self.run(target.rows, target.columns > width / 2, &step);
            for i in 0..target.rows {
                let from = copy[i * width..].as_ptr();
                from.copy_to_nonoverlapping(c.add(i * c_stride), target.columns);
            }
        }
    }
}
