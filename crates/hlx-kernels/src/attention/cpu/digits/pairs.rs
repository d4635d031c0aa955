//! Sums of products of 16-bit integers, a pair of terms at a time: of rows in memory with 32 lanes.
//!
//! A pair is a word, its first term in the lower half. Sums of 32 bits hold them: the product of
//! an integer with two digits (at most 32,639 in magnitude) and one with one digit (127) is at most 4,145,153, and there are at most 256 terms, the width of a head; 32 in a sum over a
//! block. So any instructions give the same sums.

use std::sync::OnceLock;

use hlx_core::cpu::{SimdLevel, simd_level};

use crate::attention::cpu::tile::TILE;

#[cfg(test)]
mod tests;

/// A word or a sum of each lane.
pub type Words = [i32; TILE];

/// Rows of pairs: from one row to the next, and from one pair of a row to its next, it is this many words.
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
                            // SAFETY: 32 words are that many vectors.
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
