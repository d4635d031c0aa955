//! Sums of products of 16-bit integers, a pair of terms at a time: of rows in memory with 32 lanes.
//!
//! A pair is a word, its first term in the lower half. Sums of 32 bits hold them: of a wide integer (at most 32,639 in magnitude) and a
//! narrow one (127) a product is at most 4,145,153, and there are at most 256 terms, the width of a head; 32 in a sum over a
//! block. So any instructions give the same sums.

use std::sync::OnceLock;

use hlx_core::cpu::{SimdLevel, simd_level};

use crate::attention::cpu::tile::TILE;

/// A word or a sum of each lane.
pub type Words = [i32; TILE];

/// Rows of pairs: from one row to the next, and from one pair of a row to its next, it is so many words.
#[derive(Clone, Copy)]
pub struct PairRows<'a> {
    pub words: &'a [i32],
    pub row: usize,
    pub pair: usize,
}

/// The instructions that compute sums.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pairs {
    Portable,
    #[cfg(target_arch = "x86_64")]
    Avx2,
    #[cfg(target_arch = "x86_64")]
    AvxVnni,
    #[cfg(target_arch = "x86_64")]
    Avx512,
    #[cfg(target_arch = "x86_64")]
    Avx512Vnni,
}

impl Pairs {
    /// What this processor has at the level, the slowest first.
    pub fn of(level: SimdLevel) -> Vec<Self> {
        #[cfg(target_arch = "x86_64")]
        {
            let (narrow, wide) = (level == SimdLevel::Avx2, level == SimdLevel::Avx512);
            let has = [
                (Self::Avx2, narrow || wide),
                (
                    Self::AvxVnni,
                    (narrow || wide) && is_x86_feature_detected!("avxvnni"),
                ),
                (Self::Avx512, wide),
                (
                    Self::Avx512Vnni,
                    wide && is_x86_feature_detected!("avx512vnni"),
                ),
            ];
            let has = has.into_iter().filter(|(_, has)| *has);
            let all: Vec<_> = has.map(|(pairs, _)| pairs).collect();
            if !all.is_empty() {
                return all;
            }
        }
        let _ = level;
        vec![Self::Portable]
    }

    /// The fastest of the processor at the level in use.
    pub fn fastest() -> Self {
        static FASTEST: OnceLock<Pairs> = OnceLock::new();
        *FASTEST.get_or_init(|| *Self::of(simd_level()).last().expect("one at least"))
    }

    /// `found[r] = sum over the pairs of the products of row r with the lanes`.
    pub fn sums(self, lanes: &[Words], rows: PairRows<'_>, found: &mut [Words]) {
        let (Some(last_row), Some(last_pair)) =
            (found.len().checked_sub(1), lanes.len().checked_sub(1))
        else {
            return found.fill([0; TILE]);
        };
        assert!(last_row * rows.row + last_pair * rows.pair < rows.words.len());
        match self {
            Self::Portable => portable(lanes, rows, found),
            // SAFETY: the processor has the instructions, and every pair of every row lies in the words.
            #[cfg(target_arch = "x86_64")]
            _ => unsafe {
                match self {
                    Self::Avx2 => x86::avx2(lanes, rows, found),
                    Self::AvxVnni => x86::avx_vnni(lanes, rows, found),
                    Self::Avx512 => x86::avx512(lanes, rows, found),
                    _ => x86::avx512_vnni(lanes, rows, found),
                }
            },
        }
    }
}

/// The two terms of a word.
fn terms(word: i32) -> [i32; 2] {
    [i32::from(word as i16), word >> 16]
}

fn portable(lanes: &[Words], rows: PairRows<'_>, found: &mut [Words]) {
    for (r, sums) in found.iter_mut().enumerate() {
        *sums = [0; TILE];
        for (p, lanes) in lanes.iter().enumerate() {
            let [x, y] = terms(rows.words[r * rows.row + p * rows.pair]);
            for (sum, word) in sums.iter_mut().zip(lanes) {
                let [a, b] = terms(*word);
                *sum += x * a + y * b;
            }
        }
    }
}

#[cfg(target_arch = "x86_64")]
mod x86 {
    use std::arch::x86_64::*;

    use super::{PairRows, TILE, Words};

    /// Sums of `$rows` rows at a time, of `$lanes` lanes a vector; rows past the last one repeat it.
    macro_rules! sums {
        ($name:ident, $features:literal, $rows:literal x $lanes:literal, $zero:ident, $load:ident, $store:ident, $each:ident,
         |$sum:ident, $a:ident, $b:ident| $dot:expr) => {
            /// # Safety
            /// The processor has the instructions, and every pair of every row lies in the words.
            #[target_feature(enable = $features)]
            pub unsafe fn $name(lanes: &[Words], rows: PairRows<'_>, found: &mut [Words]) {
                const VECTORS: usize = TILE / $lanes;
                for (block, found) in found.chunks_mut($rows).enumerate() {
                    let mut places = [0; $rows];
                    for (i, place) in places.iter_mut().enumerate() {
                        *place = (block * $rows + i.min(found.len() - 1)) * rows.row;
                    }
                    let mut sums = [[$zero(); VECTORS]; $rows];
                    for (p, words) in lanes.iter().enumerate() {
                        let mut lanes = [$zero(); VECTORS];
                        for (i, lanes) in lanes.iter_mut().enumerate() {
                            // SAFETY: 32 words are so many vectors.
                            *lanes = unsafe { $load(words.as_ptr().add(i * $lanes).cast()) };
                        }
                        for (sums, place) in sums.iter_mut().zip(places) {
                            // SAFETY: the caller says that this pair is there.
                            let pair = unsafe { *rows.words.get_unchecked(place + p * rows.pair) };
                            let $b = $each(pair);
                            for ($sum, $a) in sums.iter_mut().zip(lanes) {
                                *$sum = $dot;
                            }
                        }
                    }
                    for (found, sums) in found.iter_mut().zip(sums) {
                        for (i, sum) in sums.into_iter().enumerate() {
                            // SAFETY: as for the lanes.
                            unsafe { $store(found.as_mut_ptr().add(i * $lanes).cast(), sum) };
                        }
                    }
                }
            }
        };
    }

    sums!(avx2, "avx2", 2 x 8, _mm256_setzero_si256, _mm256_loadu_si256, _mm256_storeu_si256, _mm256_set1_epi32,
        |sum, a, b| _mm256_add_epi32(*sum, _mm256_madd_epi16(a, b)));
    sums!(avx_vnni, "avx2,avxvnni", 2 x 8, _mm256_setzero_si256, _mm256_loadu_si256, _mm256_storeu_si256, _mm256_set1_epi32,
        |sum, a, b| _mm256_dpwssd_avx_epi32(*sum, a, b));
    sums!(avx512, "avx512f,avx512bw", 8 x 16, _mm512_setzero_si512, _mm512_loadu_si512, _mm512_storeu_si512, _mm512_set1_epi32,
        |sum, a, b| _mm512_add_epi32(*sum, _mm512_madd_epi16(a, b)));
    sums!(avx512_vnni, "avx512f,avx512vnni", 8 x 16, _mm512_setzero_si512, _mm512_loadu_si512, _mm512_storeu_si512, _mm512_set1_epi32,
        |sum, a, b| _mm512_dpwssd_epi32(*sum, a, b));
}

#[cfg(test)]
mod tests {
    use hlx_core::arith;
    use hlx_core::cpu::simd_levels;

    use super::*;

    /// Pairs of integers up to `largest` in magnitude; the first word has the largest alone.
    fn words(seed: u32, n: usize, largest: u32) -> Vec<i32> {
        let term = |word: u32| (word % (2 * largest + 1)) as i32 - largest as i32;
        let pair = |[x, y]: [i32; 2]| x & 0xffff | y << 16;
        let drawn = (0..n as u32).map(|i| {
            let [x, y, ..] = arith::philox4x32([i, seed, 0, 0], [5, 6]);
            pair([term(x), term(y)])
        });
        let sign = |i: usize| if i.is_multiple_of(3) { 1 } else { -1 };
        let extreme = pair([largest as i32, -(largest as i32)]);
        let mut words: Vec<_> = drawn.collect();
        let extremes = words.iter_mut().step_by(2).enumerate();
        extremes.for_each(|(i, word)| *word = if sign(i) > 0 { extreme } else { *word });
        words
    }

    #[test]
    fn every_instruction_set_has_the_exact_sums() {
        for (n_rows, pairs, wide_lanes) in [
            (1, 1, true),
            (2, 4, false),
            (7, 33, true),
            (32, 128, false),
            (31, 16, true),
            (3, 0, true),
        ] {
            let [of_lanes, of_rows] = if wide_lanes {
                [32_639, 127]
            } else {
                [127, 32_639]
            };
            let lanes = words(1, pairs * TILE, of_lanes);
            let lanes: Vec<Words> = lanes.as_chunks().0.to_vec();
            let rows = words(2, n_rows * pairs + 5, of_rows);
            for (row, pair) in [(pairs, 1), (1, n_rows)] {
                let rows = PairRows {
                    words: &rows,
                    row,
                    pair,
                };
                let expected = |r: usize, lane: usize| -> i64 {
                    let of_pair = |p: usize| {
                        let [x, y] = terms(rows.words[r * row + p * pair]).map(i64::from);
                        let [a, b] = terms(lanes[p][lane]).map(i64::from);
                        x * a + y * b
                    };
                    (0..pairs).map(of_pair).sum()
                };
                for instructions in simd_levels().into_iter().flat_map(Pairs::of) {
                    let mut found = vec![[7; TILE]; n_rows];
                    instructions.sums(&lanes, rows, &mut found);
                    for (r, sums) in found.iter().enumerate() {
                        for (lane, sum) in sums.iter().enumerate() {
                            let expected = expected(r, lane);
                            assert_eq!(i64::from(*sum), expected, "{instructions:?} {r} {lane}");
                        }
                    }
                }
            }
        }
    }

    /// 256 terms of the largest integers, all of one sign.
    #[test]
    fn the_largest_sum_is_exact() {
        let pair = |x: i32| x & 0xffff | x << 16;
        let lanes = vec![[pair(32_639); TILE]; 128];
        let rows = vec![pair(-127); 128];
        for instructions in simd_levels().into_iter().flat_map(Pairs::of) {
            let mut found = [[0; TILE]];
            let rows = PairRows {
                words: &rows,
                row: 128,
                pair: 1,
            };
            instructions.sums(&lanes, rows, &mut found);
            assert_eq!(found, [[-256 * 32_639 * 127; TILE]], "{instructions:?}");
        }
    }
}
