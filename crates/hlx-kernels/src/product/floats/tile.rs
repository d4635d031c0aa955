//! The register tile: MR x NR elements of C stay in registers while k runs, one fma chain each.

use super::simd::Simd;

/// Where the chains of a tile start.
#[derive(Clone, Copy)]
pub(crate) enum Start {
    /// At +0.
    Zero,
    /// At one value per column, from a row of NR floats.
    Row(*const f32),
    /// At what C holds: an earlier block of k, or the caller's accumulator.
    Stored,
}

/// One stretch of k for one tile of C.
#[derive(Clone, Copy)]
pub(crate) struct Stretch {
    /// Terms of the chain in this stretch.
    pub k: usize,
    /// Packed A: `[k][rows]`.
    pub a: *const f32,
    /// B: `k` rows of NR floats, `b_stride` apart.
    pub b: *const f32,
    pub b_stride: usize,
    /// C: rows of NR floats, `c_stride` apart.
    pub c: *mut f32,
    pub c_stride: usize,
    pub start: Start,
    /// The chain ends here: -0 becomes +0.
    pub last: bool,
}

/// Runs a stretch for `MR` rows and `NV` vectors of columns.
///
/// # Safety
/// The processor has `S`; the ranges that `stretch` describes may be read and C written.
#[inline(always)]
unsafe fn tile<S: Simd, const MR: usize, const NV: usize>(stretch: &Stretch) {
    // SAFETY: the caller guarantees `S` and for every range.
    unsafe {
        let mut acc = [[S::zero(); NV]; MR];
        match stretch.start {
            Start::Zero => {}
            Start::Row(from) => {
                for row in &mut acc {
                    for (j, v) in row.iter_mut().enumerate() {
                        *v = S::load(from.add(j * S::LANES));
                    }
                }
            }
            Start::Stored => {
                for (i, row) in acc.iter_mut().enumerate() {
                    for (j, v) in row.iter_mut().enumerate() {
                        *v = S::load(stretch.c.add(i * stretch.c_stride + j * S::LANES));
                    }
                }
            }
        }
        let (mut a, mut b) = (stretch.a, stretch.b);
        for _ in 0..stretch.k {
            let mut columns = [S::zero(); NV];
            for (j, v) in columns.iter_mut().enumerate() {
                *v = S::load(b.add(j * S::LANES));
            }
            for (i, row) in acc.iter_mut().enumerate() {
                let x = S::splat(*a.add(i));
                for (v, column) in row.iter_mut().zip(columns) {
                    *v = S::fma(x, column, *v);
                }
            }
            a = a.add(MR);
            b = b.wrapping_add(stretch.b_stride);
        }
        for (i, row) in acc.iter().enumerate() {
            for (j, v) in row.iter().enumerate() {
                let v = if stretch.last { S::pos0(*v) } else { *v };
                S::store(stretch.c.add(i * stretch.c_stride + j * S::LANES), v);
            }
        }
    }
}

/// A tile function: a stretch for as many rows and columns as it was made for.
pub(crate) type TileFn = unsafe fn(&Stretch);

/// The register tiles of one instruction set.
#[derive(Clone, Copy)]
pub(crate) struct Tiles {
    /// Rows of the largest tile.
    pub rows: usize,
    /// Columns of a full tile: two vectors.
    pub columns: usize,
    /// `one[r - 1]`: `r` rows and one vector of columns.
    pub one: &'static [TileFn],
    /// `two[r - 1]`: `r` rows and two vectors of columns.
    pub two: &'static [TileFn],
}

impl Tiles {
    /// The function of `rows` rows and one vector of columns, or with `two`, two.
    pub fn function(&self, rows: usize, two: bool) -> TileFn {
        let functions = if two { self.two } else { self.one };
        functions[rows - 1]
    }
}

/// Names the tiles of an instruction set for 1, 2, ... rows.
macro_rules! tiles {
    ($name:ident, $simd:ident, [$($feature:literal)?], $($rows:literal)+) => {
        pub(crate) mod $name {
            use super::{Simd, Stretch, TileFn, Tiles, tile};
            use super::super::simd::$simd as S;

            $(#[target_feature(enable = $feature)])?
            unsafe fn run<const MR: usize, const NV: usize>(stretch: &Stretch) {
                // SAFETY: the caller guarantees the instruction set and the ranges.
                unsafe { tile::<S, MR, NV>(stretch) }
            }

            const ONE: &[TileFn] = &[$(run::<$rows, 1>),+];
            const TWO: &[TileFn] = &[$(run::<$rows, 2>),+];
            pub(crate) const TILES: Tiles =
                Tiles { rows: ONE.len(), columns: 2 * S::LANES, one: ONE, two: TWO };
        }
    };
}

// 14 x 32: 28 of the 32 registers hold C, two hold B and one a value of A.
#[cfg(target_arch = "x86_64")]
tiles!(avx512, Avx512, ["avx512f"], 1 2 3 4 5 6 7 8 9 10 11 12 13 14);
// 6 x 16: 12 of the 16 registers hold C.
#[cfg(target_arch = "x86_64")]
tiles!(avx2, Avx2, ["avx2,fma"], 1 2 3 4 5 6);
// 12 x 8: 24 of the 32 registers hold C, two hold B and one a value of A.
#[cfg(target_arch = "aarch64")]
tiles!(neon, Neon, ["neon"], 1 2 3 4 5 6 7 8 9 10 11 12);
// NEON's tiles again for any processor, for what NEON flushed.
#[cfg(target_arch = "aarch64")]
tiles!(neon_exact, Portable, [], 1 2 3 4 5 6 7 8 9 10 11 12);
// 8 x 8: the slow way anyhow.
tiles!(portable, Portable, [], 1 2 3 4 5 6 7 8);
