//! Tiles of sums in registers: products of pairs of 16-bit integers, added up in 32 bits.

use hlx_core::cpu::SimdLevel;
use hlx_core::multiversion;

use super::instructions::{Instructions, Packed};

/// Rows and columns of a tile.
const ROWS: usize = 6;
const COLUMNS: usize = 16;
/// Terms that 32 bits hold the sum of: each is at most 32,639 times 127 in magnitude.
const CARRY: usize = 512;

/// The sums of a tile.
type Sums = [[i32; COLUMNS]; ROWS];

/// The instructions of a level.
pub(super) fn instructions(level: SimdLevel) -> Instructions {
    Instructions {
        names: ["products of 16-bit integers", level.name()],
        level,
        tile: [ROWS, COLUMNS],
        block: CARRY,
        terms_of_word: 2,
        registers: [|| {}; 2],
        pack_row,
        pack_columns,
        multiply,
    }
}

/// Spreads rows of B over their panel: pair after pair, of all rows.
fn pack_columns(level: SimdLevel, rows: &[&[i8]], panel: &mut [i32]) {
    let panel: &mut [i16] = bytemuck::cast_slice_mut(panel);
    match (level, <&[&[i8]; COLUMNS]>::try_from(rows)) {
        #[cfg(target_arch = "x86_64")]
        // SAFETY: the processor has AVX2 at these levels.
        (SimdLevel::Avx2 | SimdLevel::Avx512, Ok(rows)) => unsafe { avx2::pack(rows, panel) },
        _ => {
            for (i, row) in rows.iter().enumerate() {
                let places = panel[2 * i..].chunks_mut(2 * COLUMNS);
                for (pair, to) in row.chunks_exact(2).zip(places) {
                    to[0] = i16::from(pair[0]);
                    to[1] = i16::from(pair[1]);
                }
            }
        }
    }
}

multiversion! {
    /// Joins the digits of a row.
    pub fn widen(digits: [&[i8]; 2], to: &mut [i16]) {
        let [high, low] = digits;
        for ((to, high), low) in to.iter_mut().zip(high).zip(low) {
            *to = (i16::from(*high) << 8) + i16::from(*low);
        }
    }
}

/// Spreads a row of A over its strip: pair after pair, each a word whose lower half is the first, `ROWS` words apart. Its sums are
/// too large by nothing.
fn pack_row(row: usize, digits: [&[i8]; 2], strip: &mut [i32]) -> [i32; 2] {
    let mut wide = [0_i16; CARRY];
    let wide = &mut wide[..digits[0].len()];
    widen(digits, wide);
    let words = strip[row..].iter_mut().step_by(ROWS);
    for (pair, to) in wide.chunks_exact(2).zip(words) {
        *to = i32::from(pair[1]) << 16 | i32::from(pair[0] as u16);
    }
    [0; 2]
}

/// Adds the sums of a tile, or begins with them: of a strip of A, \[pairs, rows\], times a panel of at most [`CARRY`] terms,
/// \[pairs, columns, 2\].
fn multiply(level: SimdLevel, packed: &Packed<'_>, sums: &mut [i32]) {
    let mut tile = [[0; COLUMNS]; ROWS];
    let (strip, panel) = (packed.left, bytemuck::cast_slice(packed.right));
    let parts = sums.split_at_mut(ROWS * COLUMNS);
    match level {
        #[cfg(target_arch = "x86_64")]
        SimdLevel::Avx2 | SimdLevel::Avx512 => {
            // SAFETY: the processor has AVX2 at these levels.
            return unsafe { avx2::tile(strip, panel, packed.begins, parts) };
        }
        #[cfg(target_arch = "aarch64")]
        SimdLevel::Neon => neon::tile(strip, panel, &mut tile),
        _ => portable::tile(strip, panel, &mut tile),
    }
    carry(&tile, packed.begins, parts);
}

multiversion! {
    /// Adds the sums of a block to those of upper and of lower digits, or begins with them.
    fn carry(tile: &Sums, begins: bool, parts: (&mut [i32], &mut [i32])) {
        let (high, low) = parts;
        for ((high, low), sum) in high.iter_mut().zip(low).zip(tile.as_flattened()) {
            let [before_high, before_low] = if begins { [0; 2] } else { [*high, *low] };
            *high = before_high + (sum >> 8);
            *low = before_low + (sum & 0xff);
        }
    }
}

/// The sum of the products of a row of A and one of B, of any length that is a multiple of 64: `256 high + low`.
#[inline]
pub(super) fn dot(level: SimdLevel, a: &[i16], b: &[i8]) -> [i32; 2] {
    let mut parts = [0; 2];
    for (a, b) in a.chunks(CARRY).zip(b.chunks(CARRY)) {
        let sum = match level {
            #[cfg(target_arch = "x86_64")]
            // SAFETY: the processor has AVX2 at these levels.
            SimdLevel::Avx2 | SimdLevel::Avx512 => unsafe { avx2::dot(a, b) },
            _ => portable::dot(a, b),
        };
        parts = [parts[0] + (sum >> 8), parts[1] + (sum & 0xff)];
    }
    parts
}

mod portable {
    use super::{COLUMNS, ROWS, Sums};

    pub(super) fn tile(strip: &[i32], panel: &[i16], sums: &mut Sums) {
        *sums = [[0; COLUMNS]; ROWS];
        let pairs = strip.chunks_exact(ROWS);
        for (a, b) in pairs.zip(panel.chunks_exact(2 * COLUMNS)) {
            for (sums, a) in sums.iter_mut().zip(a) {
                let [x, y] = [i32::from(*a as i16), a >> 16];
                for (sum, b) in sums.iter_mut().zip(b.chunks_exact(2)) {
                    // What lies past an edge may be anything, and wrap.
                    let pair = (x * i32::from(b[0])).wrapping_add(y * i32::from(b[1]));
                    *sum = sum.wrapping_add(pair);
                }
            }
        }
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
    /// The processor has AVX2.
    #[target_feature(enable = "avx2")]
    pub(super) unsafe fn tile(
        strip: &[i32],
        panel: &[i16],
        begins: bool,
        (high, low): (&mut [i32], &mut [i32]),
    ) {
        let mut sums = [[_mm256_setzero_si256(); 2]; ROWS];
        let pairs = strip.chunks_exact(ROWS);
        for (a, b) in pairs.zip(panel.chunks_exact(2 * COLUMNS)) {
            let b: *const __m256i = b.as_ptr().cast();
            // SAFETY: a chunk of the panel has two vectors of sixteen.
            let columns = unsafe { [_mm256_loadu_si256(b), _mm256_loadu_si256(b.add(1))] };
            for (sums, a) in sums.iter_mut().zip(a) {
                let pair = _mm256_set1_epi32(*a);
                for (sum, column) in sums.iter_mut().zip(columns) {
                    *sum = _mm256_add_epi32(*sum, _mm256_madd_epi16(pair, column));
                }
            }
        }
        let places = high.as_chunks_mut::<8>().0.iter_mut();
        let places = places.zip(low.as_chunks_mut::<8>().0);
        for ((high, low), sum) in places.zip(sums.as_flattened()) {
            let lower = _mm256_and_si256(*sum, _mm256_set1_epi32(0xff));
            let parts = [_mm256_srai_epi32::<8>(*sum), lower];
            for (to, part) in [high, low].into_iter().zip(parts) {
                let to: *mut __m256i = to.as_mut_ptr().cast();
                // SAFETY: there are eight sums.
                unsafe {
                    let sum = match begins {
                        true => part,
                        false => _mm256_add_epi32(part, _mm256_loadu_si256(to)),
                    };
                    _mm256_storeu_si256(to, sum);
                }
            }
        }
    }

    /// # Safety
    /// The processor has AVX2.
    #[target_feature(enable = "avx2")]
    pub(super) unsafe fn pack(rows: &[&[i8]; COLUMNS], panel: &mut [i16]) {
        let k = rows.iter().map(|row| row.len()).min().unwrap_or(0) / 16 * 16;
        assert!(panel.len() >= COLUMNS * k);
        for first in (0..k).step_by(16) {
            for half in 0..2 {
                let load = |i: usize| {
                    // SAFETY: each row has 16 numbers from here on.
                    unsafe { _mm_loadu_si128(rows[8 * half + i].as_ptr().add(first).cast()) }
                };
                let pairs = transposed([0, 1, 2, 3, 4, 5, 6, 7].map(load));
                for (pair, numbers) in pairs.into_iter().enumerate() {
                    let to = &mut panel[COLUMNS * (first + 2 * pair) + 16 * half..][..16];
                    // SAFETY: there are sixteen places.
                    unsafe {
                        _mm256_storeu_si256(to.as_mut_ptr().cast(), _mm256_cvtepi8_epi16(numbers));
                    }
                }
            }
        }
    }

    /// The transpose of 8 x 8 pairs of bytes.
    #[target_feature(enable = "avx2")]
    fn transposed(rows: [__m128i; 8]) -> [__m128i; 8] {
        let [a, b, c, d, e, f, g, h] = rows;
        let quads = |a, b, c, d| {
            let [ab, cd] = [_mm_unpacklo_epi16(a, b), _mm_unpacklo_epi16(c, d)];
            let [ab2, cd2] = [_mm_unpackhi_epi16(a, b), _mm_unpackhi_epi16(c, d)];
            [
                _mm_unpacklo_epi32(ab, cd),
                _mm_unpackhi_epi32(ab, cd),
                _mm_unpacklo_epi32(ab2, cd2),
                _mm_unpackhi_epi32(ab2, cd2),
            ]
        };
        let ([p, q, r, s], [t, u, v, w]) = (quads(a, b, c, d), quads(e, f, g, h));
        [
            _mm_unpacklo_epi64(p, t),
            _mm_unpackhi_epi64(p, t),
            _mm_unpacklo_epi64(q, u),
            _mm_unpackhi_epi64(q, u),
            _mm_unpacklo_epi64(r, v),
            _mm_unpackhi_epi64(r, v),
            _mm_unpacklo_epi64(s, w),
            _mm_unpackhi_epi64(s, w),
        ]
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

    use super::{COLUMNS, ROWS, Sums};

    pub(super) fn tile(strip: &[i32], panel: &[i16], found: &mut Sums) {
        // SAFETY: AArch64 has NEON; a chunk of the panel has two times sixteen integers, and a row of sums four
        // vectors.
        unsafe {
            let mut sums = [[vdupq_n_s32(0); 4]; ROWS];
            let pairs = strip.chunks_exact(ROWS);
            for (a, b) in pairs.zip(panel.chunks_exact(2 * COLUMNS)) {
                let halves = [vld2q_s16(b.as_ptr()), vld2q_s16(b.as_ptr().add(COLUMNS))];
                for (sums, a) in sums.iter_mut().zip(a) {
                    let [x, y] = [*a as i16, (a >> 16) as i16];
                    for (half, int16x8x2_t(first, second)) in halves.into_iter().enumerate() {
                        let [low, high] = [2 * half, 2 * half + 1];
                        sums[low] = vmlal_n_s16(sums[low], vget_low_s16(first), x);
                        sums[low] = vmlal_n_s16(sums[low], vget_low_s16(second), y);
                        sums[high] = vmlal_high_n_s16(sums[high], first, x);
                        sums[high] = vmlal_high_n_s16(sums[high], second, y);
                    }
                }
            }
            for (to, sums) in found.iter_mut().zip(sums) {
                for (i, sum) in sums.into_iter().enumerate() {
                    vst1q_s32(to.as_mut_ptr().add(4 * i), sum);
                }
            }
        }
    }
}
