//! Products of tiles in a processor's vectors: how well the compiler makes them of plain loops changes with every edit.

use hlx_core::cpu::{SimdLevel, simd_level};

use super::tile::{Lanes, TILE};
use crate::product::floats::simd::{Avx2, Avx512, Simd};

/// Numbers in memory, one for each row of sums and each term.
#[derive(Clone, Copy)]
pub struct Numbers<'a> {
    pub numbers: &'a [f32],
    /// From one row, and from one term, to the next.
    pub steps: [usize; 2],
}

/// `sums[r] = chain over k of fma(numbers[r, k], lanes[k], .)`: from +0 with -0 replaced by +0 at its end, or with `continues` from
/// what the sums hold. Returns false, and does nothing, on a processor without such vectors.
pub fn products(sums: &mut [Lanes], of: Numbers<'_>, lanes: &[Lanes], continues: bool) -> bool {
    let last = |count: usize, step: usize| count.saturating_sub(1) * step;
    let end = last(sums.len(), of.steps[0]) + last(lanes.len(), of.steps[1]);
    assert!(sums.is_empty() || lanes.is_empty() || end < of.numbers.len());
    match simd_level() {
        // SAFETY: the processor has the level, and the assertion covers the numbers.
        SimdLevel::Avx512 => unsafe { avx512(sums, of, lanes, continues) },
        // SAFETY: as above.
        SimdLevel::Avx2 => unsafe { avx2(sums, of, lanes, continues) },
        _ => return false,
    }
    true
}

// Sixteen registers of sums of 32; each number is a factor of the memory's.
#[target_feature(enable = "avx512f")]
unsafe fn avx512(sums: &mut [Lanes], of: Numbers<'_>, lanes: &[Lanes], continues: bool) {
    // SAFETY: the caller guarantees the numbers.
    unsafe { blocks::<Avx512, 8, 2>(sums, of, lanes, continues) }
}

// Eight registers of sums of 16, which hide the latency of fma.
#[target_feature(enable = "avx2,fma")]
unsafe fn avx2(sums: &mut [Lanes], of: Numbers<'_>, lanes: &[Lanes], continues: bool) {
    // SAFETY: the caller guarantees the numbers.
    unsafe { blocks::<Avx2, 4, 2>(sums, of, lanes, continues) }
}

/// # Safety
/// The processor has `S`; there are numbers of all rows and terms.
#[inline(always)]
unsafe fn blocks<S: Simd, const ROWS: usize, const NV: usize>(
    sums: &mut [Lanes],
    of: Numbers<'_>,
    lanes: &[Lanes],
    continues: bool,
) {
    let (blocks, rest) = sums.as_chunks_mut::<ROWS>();
    let mut numbers = of.numbers.as_ptr();
    for sums in blocks {
        // SAFETY: the caller guarantees `S` and the numbers.
        unsafe { block::<S, ROWS, NV>(sums, numbers, of.steps, lanes, continues) };
        numbers = numbers.wrapping_add(ROWS * of.steps[0]);
    }
    for sums in rest.as_chunks_mut::<1>().0 {
        // SAFETY: as above.
        unsafe { block::<S, 1, NV>(sums, numbers, of.steps, lanes, continues) };
        numbers = numbers.wrapping_add(of.steps[0]);
    }
}

/// # Safety
/// As [`blocks`], for the rows from `numbers` on.
#[inline(always)]
unsafe fn block<S: Simd, const ROWS: usize, const NV: usize>(
    sums: &mut [Lanes; ROWS],
    numbers: *const f32,
    [row_step, term_step]: [usize; 2],
    lanes: &[Lanes],
    continues: bool,
) {
    for first in (0..TILE).step_by(NV * S::LANES) {
        // SAFETY: the vectors are within the lanes; the caller guarantees `S` and the numbers.
        unsafe {
            let mut acc = [[S::zero(); NV]; ROWS];
            if continues {
                for (acc, sums) in acc.iter_mut().zip(&*sums) {
                    for (j, v) in acc.iter_mut().enumerate() {
                        *v = S::load(sums.as_ptr().add(first + j * S::LANES));
                    }
                }
            }
            let mut number = numbers;
            for lanes in lanes {
                let mut factors = [S::zero(); NV];
                for (j, v) in factors.iter_mut().enumerate() {
                    *v = S::load(lanes.as_ptr().add(first + j * S::LANES));
                }
                for (i, acc) in acc.iter_mut().enumerate() {
                    let x = S::splat(*number.add(i * row_step));
                    for (v, factor) in acc.iter_mut().zip(factors) {
                        *v = S::fma(x, factor, *v);
                    }
                }
                number = number.wrapping_add(term_step);
            }
            for (acc, sums) in acc.iter().zip(&mut *sums) {
                for (j, v) in acc.iter().enumerate() {
                    let end = if continues { *v } else { S::pos0(*v) };
                    S::store(sums.as_mut_ptr().add(first + j * S::LANES), end);
                }
            }
        }
    }
}
