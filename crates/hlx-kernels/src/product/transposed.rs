//! The transpose of words: 4 x 4, or 16 x 16 of them at a time.

#[cfg(target_arch = "x86_64")]
use std::arch::x86_64::*;

use bytemuck::{cast_slice, cast_slice_mut};
use hlx_core::cpu::SimdLevel;

/// Writes the transpose of the words in the first 16 bytes of four rows to `to`, whose rows lie `width` apart.
#[inline(always)]
pub(crate) fn transpose_block(rows: [&[u8]; 4], to: &mut [f32], width: usize) {
    assert!(rows.iter().all(|row| row.len() >= 16) && to.len() >= 3 * width + 4);
    #[cfg(target_arch = "x86_64")]
    // SAFETY: SSE is part of x86-64, and the assertion above covers every load and store.
    unsafe {
        let [mut r0, mut r1, mut r2, mut r3] = rows.map(|row| _mm_loadu_ps(row.as_ptr().cast()));
        _MM_TRANSPOSE4_PS(&mut r0, &mut r1, &mut r2, &mut r3);
        let to = to.as_mut_ptr();
        _mm_storeu_ps(to, r0);
        _mm_storeu_ps(to.add(width), r1);
        _mm_storeu_ps(to.add(2 * width), r2);
        _mm_storeu_ps(to.add(3 * width), r3);
    }
    #[cfg(not(target_arch = "x86_64"))]
    for (i, row) in rows.iter().enumerate() {
        for (word, bytes) in row[..16].as_chunks::<4>().0.iter().enumerate() {
            to[word * width + i] = f32::from_le_bytes(*bytes);
        }
    }
}

/// Writes the first terms of eight rows, a multiple of eight of them, as rows of eight that lie `width` apart, in order: with a
/// smaller width a row overwrites the end of the one before it.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
pub(crate) fn transpose_eight(rows: [&[f32]; 8], n_terms: usize, width: usize, to: &mut [f32]) {
    assert!(n_terms.is_multiple_of(8) && rows.iter().all(|row| row.len() >= n_terms));
    assert!(n_terms == 0 || to.len() >= (n_terms - 1) * width + 8);
    let (rows, mut to) = (rows.map(<[f32]>::as_ptr), to.as_mut_ptr());
    for k in (0..n_terms).step_by(8) {
        // Each half of a register has four terms of a row; r[i] those of row i and of row i + 4.
        let mut r = [[_mm256_setzero_ps(); 4]; 2];
        for (half, r) in r.iter_mut().enumerate() {
            for (i, r) in r.iter_mut().enumerate() {
                // SAFETY: the rows have the terms, as asserted above.
                *r = unsafe {
                    let (low, high) = (rows[i].add(k + 4 * half), rows[i + 4].add(k + 4 * half));
                    let low = _mm256_castps128_ps256(_mm_loadu_ps(low));
                    _mm256_insertf128_ps::<1>(low, _mm_loadu_ps(high))
                };
            }
        }
        for [a, b, c, d] in r {
            let (ab, cd) = (_mm256_unpacklo_ps(a, b), _mm256_unpacklo_ps(c, d));
            let (ab_high, cd_high) = (_mm256_unpackhi_ps(a, b), _mm256_unpackhi_ps(c, d));
            for row in [
                _mm256_shuffle_ps::<0x44>(ab, cd),
                _mm256_shuffle_ps::<0xee>(ab, cd),
                _mm256_shuffle_ps::<0x44>(ab_high, cd_high),
                _mm256_shuffle_ps::<0xee>(ab_high, cd_high),
            ] {
                // SAFETY: `to` has the rows, as asserted above.
                unsafe {
                    _mm256_storeu_ps(to, row);
                    to = to.add(width);
                }
            }
        }
    }
}

/// Transposes words of 16 columns, of which each flips the same bits: 64 bytes of each become 16 rows of `panel`, `row` words
/// apart; the next ones lie `block` words further on.
pub(crate) fn transpose_columns(
    level: SimdLevel,
    columns: [&[i8]; 16],
    flipped: i32,
    [block, row]: [usize; 2],
    panel: &mut [i32],
) {
    let blocks = panel.chunks_mut(block).take(columns[0].len() / 64);
    for (i, to) in blocks.enumerate() {
        let mut chunks = [&[0; 64]; 16];
        for (chunk, column) in chunks.iter_mut().zip(columns) {
            *chunk = column[64 * i..].first_chunk::<64>().expect("64 bytes");
        }
        match level {
            #[cfg(target_arch = "x86_64")]
            // SAFETY: the processor has AVX-512 at this level.
            SimdLevel::Avx512 => unsafe { avx512(chunks, flipped, row, to) },
            _ => plain(chunks, flipped, row, to),
        }
    }
}

fn plain(columns: [&[i8; 64]; 16], flipped: i32, row: usize, to: &mut [i32]) {
    for (i, columns) in columns.as_chunks::<4>().0.iter().enumerate() {
        for quads in 0..4 {
            let bytes = columns.map(|column| cast_slice(&column[16 * quads..]));
            let to = &mut to[4 * quads * row + 4 * i..];
            transpose_block(bytes, cast_slice_mut(to), row);
            for to in to.chunks_mut(row).take(4) {
                to[..4].iter_mut().for_each(|word| *word ^= flipped);
            }
        }
    }
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f")]
fn avx512(columns: [&[i8; 64]; 16], flipped: i32, row: usize, to: &mut [i32]) {
    let flipped = _mm512_set1_epi32(flipped);
    for (i, words) in transpose_sixteen(columns).into_iter().enumerate() {
        let (to, words) = (&mut to[i * row..][..16], _mm512_xor_si512(words, flipped));
        // SAFETY: there are sixteen words.
        unsafe { _mm512_storeu_si512(to.as_mut_ptr().cast(), words) };
    }
}

/// The transpose of 16 x 16 words.
#[cfg(target_arch = "x86_64")]
#[inline]
#[target_feature(enable = "avx512f")]
pub(crate) fn transpose_sixteen(columns: [&[i8; 64]; 16]) -> [__m512i; 16] {
    // Loops, as closures are no part of a function with its instructions.
    let mut r = [_mm512_setzero_si512(); 16];
    for (r, column) in r.iter_mut().zip(columns) {
        // SAFETY: a column has 64 bytes.
        *r = unsafe { _mm512_loadu_si512(column.as_ptr().cast()) };
    }
    // Pairs of columns, then fours of them: of four words in each quarter, one after the other.
    let mut fours = r;
    for i in (0..16).step_by(4) {
        let [low, high] = [
            [
                _mm512_unpacklo_epi32(r[i], r[i + 1]),
                _mm512_unpacklo_epi32(r[i + 2], r[i + 3]),
            ],
            [
                _mm512_unpackhi_epi32(r[i], r[i + 1]),
                _mm512_unpackhi_epi32(r[i + 2], r[i + 3]),
            ],
        ];
        fours[i] = _mm512_unpacklo_epi64(low[0], low[1]);
        fours[i + 1] = _mm512_unpackhi_epi64(low[0], low[1]);
        fours[i + 2] = _mm512_unpacklo_epi64(high[0], high[1]);
        fours[i + 3] = _mm512_unpackhi_epi64(high[0], high[1]);
    }
    let mut rows = r;
    for i in 0..4 {
        // The even and the odd quarters of the first eight columns and of the others.
        let [even, even8] = [
            _mm512_shuffle_i32x4::<0x88>(fours[i], fours[4 + i]),
            _mm512_shuffle_i32x4::<0x88>(fours[8 + i], fours[12 + i]),
        ];
        let [odd, odd8] = [
            _mm512_shuffle_i32x4::<0xdd>(fours[i], fours[4 + i]),
            _mm512_shuffle_i32x4::<0xdd>(fours[8 + i], fours[12 + i]),
        ];
        rows[i] = _mm512_shuffle_i32x4::<0x88>(even, even8);
        rows[4 + i] = _mm512_shuffle_i32x4::<0x88>(odd, odd8);
        rows[8 + i] = _mm512_shuffle_i32x4::<0xdd>(even, even8);
        rows[12 + i] = _mm512_shuffle_i32x4::<0xdd>(odd, odd8);
    }
    rows
}
