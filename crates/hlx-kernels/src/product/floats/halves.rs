//! Operands of 16-bit elements on the CPU: packed as the f32 of the same values.

#[cfg(target_arch = "x86_64")]
use hlx_core::cpu::{SimdLevel, simd_level};

use super::pack::{Element, Operand, Panel};
use crate::element::{from_bf16, from_f16};

/// A type of 16 bits.
pub(super) trait Half: Copy + Sync {
    /// The bits of the f32 with the value of an element, which lies in the low 16 bits.
    fn widen(bits: u32) -> u32;

    /// Packs the sixteen vectors from `i` on, as far along k as a processor's widest vectors do it; returns how
    /// far.
    fn pack_sixteen(
        _data: &[u16],
        _row: usize,
        _panel: Panel,
        _i: usize,
        _to: &mut [f32],
    ) -> usize {
        0
    }
}

/// Elements of f16.
#[derive(Clone, Copy)]
pub(super) struct Binary16;

/// Elements of bf16.
#[derive(Clone, Copy)]
pub(super) struct Brain16;

impl Half for Binary16 {
    #[inline(always)]
    fn widen(bits: u32) -> u32 {
        from_f16(bits)
    }
}

impl Half for Brain16 {
    #[inline(always)]
    fn widen(bits: u32) -> u32 {
        from_bf16(bits)
    }

    #[cfg(target_arch = "x86_64")]
    fn pack_sixteen(data: &[u16], row: usize, panel: Panel, i: usize, to: &mut [f32]) -> usize {
        if simd_level() != SimdLevel::Avx512 || panel.count < i + 16 {
            return 0;
        }
        let blocks = panel.k_count / 16 * 16;
        for k in (0..blocks).step_by(16) {
            let first = |r: usize| (panel.first + i + r) * row + panel.k_first + k;
            let rows = std::array::from_fn(|r| &data[first(r)..][..16]);
            // SAFETY: the processor has AVX-512F.
            unsafe { transpose_sixteen(rows, &mut to[k * panel.width + i..], panel.width) };
        }
        blocks
    }
}

/// Writes the transpose of sixteen rows of sixteen bf16 as f32 to `to`, whose rows lie `width` apart.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f")]
fn transpose_sixteen(rows: [&[u16]; 16], to: &mut [f32], width: usize) {
    use std::arch::x86_64::{
        __m512i, _mm256_loadu_si256, _mm512_and_si512, _mm512_castsi256_si512, _mm512_inserti64x4,
        _mm512_mask_and_epi32, _mm512_set1_epi32, _mm512_shuffle_i32x4, _mm512_slli_epi32,
        _mm512_storeu_si512, _mm512_testn_epi32_mask, _mm512_unpackhi_epi32, _mm512_unpackhi_epi64,
        _mm512_unpacklo_epi32, _mm512_unpacklo_epi64,
    };
    assert!(rows.iter().all(|row| row.len() >= 16) && to.len() >= 15 * width + 16);
    // Two rows, whose elements are taken as pairs, a word each.
    let joined = |low: &[u16], high: &[u16]| {
        // SAFETY: the assertion covers the loads.
        unsafe {
            let low = _mm512_castsi256_si512(_mm256_loadu_si256(low.as_ptr().cast()));
            _mm512_inserti64x4::<1>(low, _mm256_loadu_si256(high.as_ptr().cast()))
        }
    };
    // Words c and 4 + c of rows 0 to 3 and 4 to 7, each four rows in a quarter of the register.
    let quarters = |rows: &[&[u16]]| {
        let [r0, r1, r2, r3] = std::array::from_fn(|r| joined(rows[r], rows[r + 4]));
        let [low01, low23] = [_mm512_unpacklo_epi32(r0, r1), _mm512_unpacklo_epi32(r2, r3)];
        let [high01, high23] = [_mm512_unpackhi_epi32(r0, r1), _mm512_unpackhi_epi32(r2, r3)];
        [
            _mm512_unpacklo_epi64(low01, low23),
            _mm512_unpackhi_epi64(low01, low23),
            _mm512_unpacklo_epi64(high01, high23),
            _mm512_unpackhi_epi64(high01, high23),
        ]
    };
    let to = to.as_mut_ptr();
    let (upper, exponent) = (_mm512_set1_epi32(-0x1_0000), _mm512_set1_epi32(0x7f80_0000));
    let sign = _mm512_set1_epi32(i32::MIN);
    // An element in the upper half of its word, at a place along k; subnormals become zeros of their sign.
    let put = |k: usize, bits: __m512i| {
        let small = _mm512_testn_epi32_mask(bits, exponent);
        let value = _mm512_mask_and_epi32(bits, small, bits, sign);
        // SAFETY: the assertion covers the stores.
        unsafe { _mm512_storeu_si512(to.add(k * width).cast(), value) };
    };
    let (first, second) = (quarters(&rows[..8]), quarters(&rows[8..]));
    for c in 0..4 {
        let words = [
            _mm512_shuffle_i32x4::<0b10_00_10_00>(first[c], second[c]),
            _mm512_shuffle_i32x4::<0b11_01_11_01>(first[c], second[c]),
        ];
        for (part, word) in words.into_iter().enumerate() {
            let k = 2 * (4 * part + c);
            put(k, _mm512_slli_epi32::<16>(word));
            put(k + 1, _mm512_and_si512(word, upper));
        }
    }
}

impl<H: Half> Element for H {
    type Stored = u16;

    fn pack(from: Operand<'_, u16>, panel: Panel, to: &mut [f32]) {
        let to = &mut to[..panel.k_count * panel.width];
        if panel.count < panel.width {
            to.fill(0.0);
        }
        if from.k_contiguous {
            pack_transposed::<H>(from.data, from.stride, panel, to);
            return;
        }
        for (k, to) in to.chunks_exact_mut(panel.width).enumerate() {
            let at = (panel.k_first + k) * from.stride + panel.first;
            for (to, &half) in to.iter_mut().zip(&from.data[at..at + panel.count]) {
                *to = value::<H>(half.into());
            }
        }
    }
}

fn value<H: Half>(bits: u32) -> f32 {
    f32::from_bits(H::widen(bits))
}

/// Packs vectors that lie along k, in blocks of four vectors and eight k where [`Half::pack_sixteen`] does not
/// do it. The last block of vectors overlaps its neighbour rather than being narrower: it writes the same values
/// twice.
fn pack_transposed<H: Half>(data: &[u16], row: usize, panel: Panel, to: &mut [f32]) {
    let mut i = 0;
    while i < panel.count {
        let packed = H::pack_sixteen(data, row, panel, i, to);
        let n_vectors = if packed > 0 { 16 } else { panel.count.min(4) };
        i = i.min(panel.count - n_vectors);
        let blocks = match n_vectors {
            4 => panel.k_count / 8 * 8,
            _ => packed,
        };
        let first = |r: usize| (panel.first + i + r) * row + panel.k_first;
        for k in (packed..blocks).step_by(8) {
            let rows = std::array::from_fn(|r| &data[first(r) + k..][..8]);
            let pairs = transposed(rows);
            let (to, width) = (&mut to[k * panel.width + i..], panel.width);
            for (pair, words) in pairs.iter().enumerate() {
                for half_idx in 0..2 {
                    let to = &mut to[(2 * pair + half_idx) * width..][..4];
                    for (to, word) in to.iter_mut().zip(words) {
                        *to = value::<H>((word >> (16 * half_idx)) & 0xffff);
                    }
                }
            }
        }
        for r in 0..n_vectors {
            for k in blocks..panel.k_count {
                to[k * panel.width + i + r] = value::<H>(data[first(r) + k].into());
            }
        }
        i += n_vectors;
    }
}

/// Four rows of eight elements as pairs of neighbours, a word each: `transposed[p][r]` holds elements
/// 2p (its low bits) and 2p + 1 of row r.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
fn transposed(rows: [&[u16]; 4]) -> [[u32; 4]; 4] {
    use std::arch::x86_64::{
        _mm_loadu_si128, _mm_storeu_si128, _mm_unpackhi_epi32, _mm_unpackhi_epi64,
        _mm_unpacklo_epi32, _mm_unpacklo_epi64,
    };
    assert!(rows.iter().all(|row| row.len() >= 8));
    let mut result = [[0; 4]; 4];
    // SAFETY: SSE2 is part of x86-64; the assertion covers the loads, and each array a store.
    unsafe {
        let [r0, r1, r2, r3] = rows.map(|row| _mm_loadu_si128(row.as_ptr().cast()));
        let [low01, low23] = [_mm_unpacklo_epi32(r0, r1), _mm_unpacklo_epi32(r2, r3)];
        let [high01, high23] = [_mm_unpackhi_epi32(r0, r1), _mm_unpackhi_epi32(r2, r3)];
        let pairs = [
            _mm_unpacklo_epi64(low01, low23),
            _mm_unpackhi_epi64(low01, low23),
            _mm_unpacklo_epi64(high01, high23),
            _mm_unpackhi_epi64(high01, high23),
        ];
        for (result, pair) in result.iter_mut().zip(pairs) {
            _mm_storeu_si128(result.as_mut_ptr().cast(), pair);
        }
    }
    result
}

/// Four rows of eight elements as pairs of neighbours, a word each: `transposed[p][r]` holds elements
/// 2p (its low bits) and 2p + 1 of row r.
#[cfg(not(target_arch = "x86_64"))]
#[inline(always)]
fn transposed(rows: [&[u16]; 4]) -> [[u32; 4]; 4] {
    let pair = |r: usize, p: usize| u32::from(rows[r][2 * p]) | u32::from(rows[r][2 * p + 1]) << 16;
    std::array::from_fn(|p| std::array::from_fn(|r| pair(r, p)))
}
