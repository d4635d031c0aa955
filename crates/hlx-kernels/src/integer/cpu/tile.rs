//! Tiles of sums in registers: products of pairs of 16-bit integers, added up in 32 bits.

use hlx_core::cpu::SimdLevel;

/// Rows and columns of a tile.
pub(super) const ROWS: usize = 6;
pub(super) const COLUMNS: usize = 16;
/// Terms that 32 bits hold the sum of: each is at most 32,639 times 127 in magnitude.
pub(super) const CARRY: usize = 512;

/// Spreads a row of B over its panel: pair after pair, `COLUMNS` pairs apart.
pub(super) fn pack(digits: &[i8], panel: &mut [i16]) {
    for (pair, to) in digits.chunks_exact(2).zip(panel.chunks_mut(2 * COLUMNS)) {
        to[0] = i16::from(pair[0]);
        to[1] = i16::from(pair[1]);
    }
}

/// The sums of a tile: rows of A, `stride` apart, times a panel of at most [`CARRY`] terms, \[pairs, columns, 2\].
#[inline]
pub(super) fn tile(
    level: SimdLevel,
    a: &[i16],
    stride: usize,
    b: &[i16],
) -> [[i32; COLUMNS]; ROWS] {
    assert!(a.len() >= (ROWS - 1) * stride + b.len() / COLUMNS);
    match level {
        #[cfg(target_arch = "x86_64")]
        // SAFETY: the processor has AVX2 at these levels, and the rows of A are long enough.
        SimdLevel::Avx2 | SimdLevel::Avx512 => unsafe { avx2::tile(a, stride, b) },
        #[cfg(target_arch = "aarch64")]
        // SAFETY: the rows of A are long enough.
        SimdLevel::Neon => unsafe { neon::tile(a, stride, b) },
        _ => portable::tile(a, stride, b),
    }
}

/// The sum of the products of a row of A and one of B, of any length that is a multiple of 64.
#[inline]
pub(super) fn dot(level: SimdLevel, a: &[i16], b: &[i8]) -> i64 {
    a.chunks(CARRY)
        .zip(b.chunks(CARRY))
        .map(|(a, b)| {
            i64::from(match level {
                #[cfg(target_arch = "x86_64")]
                // SAFETY: the processor has AVX2 at these levels.
                SimdLevel::Avx2 | SimdLevel::Avx512 => unsafe { avx2::dot(a, b) },
                _ => portable::dot(a, b),
            })
        })
        .sum()
}

mod portable {
    use super::{COLUMNS, ROWS};

    pub(super) fn tile(a: &[i16], stride: usize, b: &[i16]) -> [[i32; COLUMNS]; ROWS] {
        let mut sums = [[0; COLUMNS]; ROWS];
        for (pair, b) in b.chunks_exact(2 * COLUMNS).enumerate() {
            for (row, sums) in sums.iter_mut().enumerate() {
                let [x, y] = [0, 1].map(|i| i32::from(a[row * stride + 2 * pair + i]));
                for (sum, b) in sums.iter_mut().zip(b.chunks_exact(2)) {
                    *sum += x * i32::from(b[0]) + y * i32::from(b[1]);
                }
            }
        }
        sums
    }

    pub(super) fn dot(a: &[i16], b: &[i8]) -> i32 {
        let terms = a.iter().zip(b);
        terms.map(|(a, b)| i32::from(*a) * i32::from(*b)).sum()
    }
}

#[cfg(target_arch = "x86_64")]
mod avx2 {
    use std::arch::x86_64::*;

    use super::{COLUMNS, ROWS};

    /// # Safety
    /// The processor has AVX2, and `a` has six rows of `b.len() / 16` terms.
    #[target_feature(enable = "avx2")]
    pub(super) unsafe fn tile(a: &[i16], stride: usize, b: &[i16]) -> [[i32; COLUMNS]; ROWS] {
        let mut sums = [[_mm256_setzero_si256(); 2]; ROWS];
        for (pair, b) in b.chunks_exact(2 * COLUMNS).enumerate() {
            // SAFETY: a chunk of B has 32 integers, and each row of A this pair.
            unsafe {
                let b: *const __m256i = b.as_ptr().cast();
                let columns = [_mm256_loadu_si256(b), _mm256_loadu_si256(b.add(1))];
                let a = a.as_ptr().add(2 * pair);
                for (row, sums) in sums.iter_mut().enumerate() {
                    let x: *const i32 = a.add(row * stride).cast();
                    let x = _mm256_set1_epi32(x.read_unaligned());
                    for (sum, column) in sums.iter_mut().zip(columns) {
                        *sum = _mm256_add_epi32(*sum, _mm256_madd_epi16(x, column));
                    }
                }
            }
        }
        let mut found = [[0; COLUMNS]; ROWS];
        for (to, sums) in found.iter_mut().zip(sums) {
            // SAFETY: a row has two vectors of eight.
            unsafe {
                let to: *mut __m256i = to.as_mut_ptr().cast();
                _mm256_storeu_si256(to, sums[0]);
                _mm256_storeu_si256(to.add(1), sums[1]);
            }
        }
        found
    }

    /// # Safety
    /// The processor has AVX2; `b` is as long as `a`, a multiple of 64.
    #[target_feature(enable = "avx2")]
    pub(super) unsafe fn dot(a: &[i16], b: &[i8]) -> i32 {
        let mut sums = [_mm256_setzero_si256(); 4];
        for (a, b) in a.chunks_exact(64).zip(b.chunks_exact(64)) {
            for (i, sum) in sums.iter_mut().enumerate() {
                // SAFETY: a chunk has four vectors of sixteen.
                unsafe {
                    let x = _mm256_loadu_si256(a.as_ptr().add(16 * i).cast());
                    let y = _mm_loadu_si128(b.as_ptr().add(16 * i).cast());
                    let y = _mm256_cvtepi8_epi16(y);
                    *sum = _mm256_add_epi32(*sum, _mm256_madd_epi16(x, y));
                }
            }
        }
        let [a, b, c, d] = sums;
        let sum = _mm256_add_epi32(_mm256_add_epi32(a, b), _mm256_add_epi32(c, d));
        let mut lanes = [0; 8];
        // SAFETY: there are eight lanes.
        unsafe { _mm256_storeu_si256(lanes.as_mut_ptr().cast(), sum) };
        lanes.iter().sum()
    }
}

#[cfg(target_arch = "aarch64")]
mod neon {
    use std::arch::aarch64::*;

    use super::{COLUMNS, ROWS};

    /// # Safety
    /// `a` has six rows of `b.len() / 16` terms.
    pub(super) unsafe fn tile(a: &[i16], stride: usize, b: &[i16]) -> [[i32; COLUMNS]; ROWS] {
        // SAFETY: AArch64 has NEON; a chunk of B has 32 integers, each row of A this pair, and a row of
        // sums four vectors.
        unsafe {
            let mut sums = [[vdupq_n_s32(0); 4]; ROWS];
            for (pair, b) in b.chunks_exact(2 * COLUMNS).enumerate() {
                let halves = [vld2q_s16(b.as_ptr()), vld2q_s16(b.as_ptr().add(COLUMNS))];
                for (row, sums) in sums.iter_mut().enumerate() {
                    let a = a.as_ptr().add(row * stride + 2 * pair);
                    let (x, y) = (*a, *a.add(1));
                    for (half, int16x8x2_t(first, second)) in halves.into_iter().enumerate() {
                        let [low, high] = [2 * half, 2 * half + 1];
                        sums[low] = vmlal_n_s16(sums[low], vget_low_s16(first), x);
                        sums[low] = vmlal_n_s16(sums[low], vget_low_s16(second), y);
                        sums[high] = vmlal_high_n_s16(sums[high], first, x);
                        sums[high] = vmlal_high_n_s16(sums[high], second, y);
                    }
                }
            }
            let mut found = [[0; COLUMNS]; ROWS];
            for (to, sums) in found.iter_mut().zip(sums) {
                for (i, sum) in sums.into_iter().enumerate() {
                    vst1q_s32(to.as_mut_ptr().add(4 * i), sum);
                }
            }
            found
        }
    }
}
