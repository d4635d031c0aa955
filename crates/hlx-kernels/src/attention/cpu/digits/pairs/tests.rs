//! Every instruction set has the exact sums.

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
