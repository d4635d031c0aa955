//! Dot products of four bytes, of which one operand has no sign: B's digits are read as `b + 128`, so that a sum is too
//! large by 128 times that of A's digits. Sums wrap, and are right once that is taken off.

use std::arch::x86_64::*;

use hlx_core::cpu::SimdLevel;
use hlx_core::multiversion;

use super::instructions::{Instructions, Packed, pack_digits};

/// What makes four digits of B unsigned: 128 is added to each.
const UNSIGNED: i32 = 0x8080_8080_u32 as i32;

/// Those that the processor has at the level, the slowest first: vectors of eight and of sixteen sums.
pub(super) fn instructions(level: SimdLevel) -> impl Iterator<Item = Instructions> {
    let bytes = Instructions {
        names: ["products of bytes", "AVX-VNNI"],
        level: SimdLevel::Avx2,
        tile: [3, 16],
        block: 2048,
        terms_of_word: 4,
        registers: [|| {}; 2],
        pack_row: pack_row::<3>,
        pack_columns: pack_columns::<16>,
        multiply: avx,
    };
    let wider = Instructions {
        names: ["products of bytes", "AVX-512 VNNI"],
        level: SimdLevel::Avx512,
        tile: [6, 32],
        pack_row: pack_row::<6>,
        pack_columns: pack_columns::<32>,
        multiply: avx512,
        ..bytes
    };
    let (narrow, wide) = (level == SimdLevel::Avx2, level == SimdLevel::Avx512);
    let has = [
        (narrow || wide) && is_x86_feature_detected!("avxvnni"),
        wide && is_x86_feature_detected!("avx512vnni"),
    ];
    let all = [bytes, wider].into_iter().zip(has);
    all.filter(|(_, has)| *has)
        .map(|(instructions, _)| instructions)
}

/// The words of columns, \[k / 4, columns\].
fn pack_columns<const WIDTH: usize>(level: SimdLevel, columns: &[&[i8]], panel: &mut [i32]) {
    pack_digits(level, columns, UNSIGNED, [16 * WIDTH, WIDTH], 16, panel);
}

/// A row's words in its strip, \[k / 4, rows, 2\].
fn pack_row<const ROWS: usize>(row: usize, digits: [&[i8]; 2], strip: &mut [i32]) -> [i32; 2] {
    let [high, low] = digits.map(|digits| digits.as_chunks::<4>().0);
    for ((high, low), to) in high.iter().zip(low).zip(strip.chunks_exact_mut(2 * ROWS)) {
        to[2 * row] = word(high);
        to[2 * row + 1] = word(low);
    }
    digits.map(|digits| sum(digits).wrapping_mul(128))
}

fn word(digits: &[i8; 4]) -> i32 {
    i32::from_le_bytes(digits.map(|digit| digit as u8))
}

multiversion! {
    fn sum(digits: &[i8]) -> i32 {
        digits.iter().map(|digit| i32::from(*digit)).sum()
    }
}

/// A tile of `$rows` rows, both digits, of two vectors of `$lanes` sums.
macro_rules! tile {
    ($(#[$comment:meta])* $name:ident, $features:literal, $rows:literal x $lanes:literal, $zero:ident, $load:ident, $store:ident,
     $each:ident, $dot:ident) => {
        $(#[$comment])*
        #[target_feature(enable = $features)]
        unsafe fn $name(_: SimdLevel, packed: &Packed<'_>, found: &mut [i32]) {
            const LINES: usize = 2 * $rows;
            // The sums of a row's two digits follow each other here; in memory each digit's rows do.
            let place = |line: usize, vector: usize| {
                (line % 2 * $rows + line / 2) * 2 * $lanes + vector * $lanes
            };
            let load = |at: usize| match packed.begins {
                true => $zero(),
                // SAFETY: the caller says how long `found` is: every place lies in it.
                false => unsafe { $load(found[at..].as_ptr().cast()) },
            };
            let mut sums: [_; LINES] =
                std::array::from_fn(|line| [load(place(line, 0)), load(place(line, 1))]);
            let left = packed.left.chunks_exact(LINES).take(packed.k / 4);
            for (a, b) in left.zip(packed.right.chunks_exact(2 * $lanes)) {
                // SAFETY: a chunk of the panel has two vectors.
                let columns = unsafe { [$load(b.as_ptr().cast()), $load(b[$lanes..].as_ptr().cast())] };
                for (sums, a) in sums.iter_mut().zip(a) {
                    let quad = $each(*a);
                    for (sum, column) in sums.iter_mut().zip(columns) {
                        *sum = $dot(*sum, column, quad);
                    }
                }
            }
            for (line, sums) in sums.into_iter().enumerate() {
                for (vector, sum) in sums.into_iter().enumerate() {
                    // SAFETY: as above.
                    unsafe { $store(found[place(line, vector)..].as_mut_ptr().cast(), sum) };
                }
            }
        }
    };
}

tile!(
    /// # Safety
    /// The processor has AVX-VNNI; operands and sums have the lengths of a tile.
    avx, "avx2,avxvnni", 3 x 8, _mm256_setzero_si256, _mm256_loadu_si256, _mm256_storeu_si256, _mm256_set1_epi32, _mm256_dpbusd_avx_epi32
);
tile!(
    /// # Safety
    /// The processor has AVX-512 F and VNNI; operands and sums have the lengths of a tile.
    avx512, "avx512f,avx512vnni", 6 x 16, _mm512_setzero_si512, _mm512_loadu_si512, _mm512_storeu_si512, _mm512_set1_epi32, _mm512_dpbusd_epi32
);
