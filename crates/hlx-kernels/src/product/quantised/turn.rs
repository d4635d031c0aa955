//! The transpose of words: 16 x 16 of them at a time.

#[cfg(target_arch = "x86_64")]
use std::arch::x86_64::*;

use hlx_core::cpu::SimdLevel;

/// Turns words of 16 columns, of which each flips the same bits: 64 bytes of each become 16 rows of `panel`, `row` words
/// apart; the next ones lie `block` words further on.
pub(crate) fn turn(
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
    for (column, bytes) in columns.into_iter().enumerate() {
        for (to, quad) in to.chunks_mut(row).zip(bytes.as_chunks::<4>().0) {
            to[column] = i32::from_le_bytes(quad.map(|digit| digit as u8)) ^ flipped;
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
