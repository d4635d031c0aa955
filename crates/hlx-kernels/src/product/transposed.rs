//! The transpose of words: 4 x 4, or 16 x 16 of them at a time.

#[cfg(target_arch = "x86_64")]
use std::arch::x86_64::*;

use bytemuck::cast_slice;
use hlx_core::cpu::SimdLevel;

/// The transpose of the words in the first 16 bytes of four rows.
#[inline(always)]
pub(crate) fn transposed(rows: [&[u8]; 4]) -> [[u32; 4]; 4] {
    let rows = rows.map(|row| row.first_chunk::<16>().expect("16 bytes"));
    #[cfg(target_arch = "x86_64")]
    // SAFETY: SSE2 is part of x86-64; a row has 16 bytes, and each array, too.
    unsafe {
        let [r0, r1, r2, r3] = rows.map(|row| _mm_loadu_si128(row.as_ptr().cast()));
        let [low01, low23] = [_mm_unpacklo_epi32(r0, r1), _mm_unpacklo_epi32(r2, r3)];
        let [high01, high23] = [_mm_unpackhi_epi32(r0, r1), _mm_unpackhi_epi32(r2, r3)];
        let columns = [
            _mm_unpacklo_epi64(low01, low23),
            _mm_unpackhi_epi64(low01, low23),
            _mm_unpacklo_epi64(high01, high23),
            _mm_unpackhi_epi64(high01, high23),
        ];
        columns.map(|column| {
            let mut words = [0; 4];
            _mm_storeu_si128(words.as_mut_ptr().cast(), column);
            words
        })
    }
    #[cfg(not(target_arch = "x86_64"))]
    std::array::from_fn(|word| rows.map(|row| u32::from_le_bytes(row.as_chunks::<4>().0[word])))
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
    for (i, to) in panel
        .chunks_mut(block)
        .enumerate()
        .take(columns[0].len() / 64)
    {
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
            for (j, words) in transposed(bytes).into_iter().enumerate() {
                let to = &mut to[(4 * quads + j) * row + 4 * i..][..4];
                to.copy_from_slice(&words.map(|word| word as i32 ^ flipped));
            }
        }
    }
}

/// # Safety
/// The processor has AVX-512 F.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f")]
unsafe fn avx512(columns: [&[i8; 64]; 16], flipped: i32, row: usize, to: &mut [i32]) {
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
    let flipped = _mm512_set1_epi32(flipped);
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
        let transposed = [
            _mm512_shuffle_i32x4::<0x88>(even, even8),
            _mm512_shuffle_i32x4::<0x88>(odd, odd8),
            _mm512_shuffle_i32x4::<0xdd>(even, even8),
            _mm512_shuffle_i32x4::<0xdd>(odd, odd8),
        ];
        for (quarter, transposed) in transposed.into_iter().enumerate() {
            let to = &mut to[(4 * quarter + i) * row..][..16];
            // SAFETY: there are sixteen words.
            unsafe {
                _mm512_storeu_si512(
                    to.as_mut_ptr().cast(),
                    _mm512_xor_si512(transposed, flipped),
                )
            };
        }
    }
}
