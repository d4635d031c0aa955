//! Random numbers of batches: functions of a seed and a counter, never a state.

use hlx_core::arith::philox4x32;

/// The purpose of the offsets of windows.
const OFFSET: u32 = 0xf100_0000;
/// The purpose of the order of documents and rows.
const ORDER: u32 = 0xf100_0001;
/// Rounds of the Feistel network behind [`permuted`].
const ROUNDS: u32 = 6;

fn words(seed: u64, counter: [u32; 4]) -> [u32; 4] {
    philox4x32(counter, [seed as u32, (seed >> 32) as u32])
}

/// Draws number `index` of a seed, below `n`: the upper half of a 128-bit product, whose bias is
/// below n / 2^64.
pub(super) fn offset(seed: u64, index: u64, n: u64) -> u64 {
    let [low, high, ..] = words(seed, [index as u32, (index >> 32) as u32, 0, OFFSET]);
    let word = u64::from(high) << 32 | u64::from(low);
    ((u128::from(word) * u128::from(n)) >> 64) as u64
}

/// Returns what a permutation of `0..n`, drawn by seed and epoch, has at `place`. Nothing of the size
/// of n is stored: a Feistel network permutes the numbers of an even number of bits, and is applied
/// until the result is below n.
pub(super) fn permuted(seed: u64, epoch: u64, place: u64, n: u64) -> u64 {
    debug_assert!(place < n, "{place} of {n}");
    let bits = (u64::BITS - n.saturating_sub(1).leading_zeros()).max(2);
    let half = bits.div_ceil(2);
    let mask = (1_u64 << half) - 1;
    let mut number = place;
    loop {
        let (mut left, mut right) = (number >> half, number & mask);
        for round in 0..ROUNDS {
            let stream = round | (epoch as u32) << 3;
            let counter = [right as u32, (epoch >> 29) as u32, stream, ORDER];
            let [word, ..] = words(seed, counter);
            (left, right) = (right, left ^ u64::from(word) & mask);
        }
        number = left << half | right;
        if number < n {
            return number;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_permutation_has_every_number_once_and_depends_on_seed_and_epoch() {
        for n in [1, 2, 3, 5, 16, 17, 1000] {
            let order = |seed, epoch| -> Vec<u64> {
                (0..n)
                    .map(|place| permuted(seed, epoch, place, n))
                    .collect()
            };
            let mut sorted = order(3, 1);
            sorted.sort_unstable();
            assert!(sorted.into_iter().eq(0..n), "{n}");
            if n > 5 {
                assert_ne!(order(3, 1), order(3, 2));
                assert_ne!(order(3, 1), order(4, 1));
                assert_ne!(order(3, 1), order(3 | 1 << 40, 1));
                assert_ne!(order(3, 1), order(3, 1 + (1 << 40)));
            }
        }
        // Near the largest count nothing overflows.
        let n = (1 << 62) + 1;
        assert!(permuted(1, 2, n - 1, n) < n);
    }

    #[test]
    fn places_and_offsets_are_spread_evenly() {
        let (mut firsts, mut offsets) = ([0_u32; 5], [0_u32; 5]);
        for index in 0..5000 {
            firsts[permuted(3, index, 0, 5) as usize] += 1;
            offsets[offset(3, index, 5) as usize] += 1;
        }
        for counts in [firsts, offsets] {
            let even = counts.iter().all(|count| (900..1100).contains(count));
            assert!(even, "{counts:?}");
        }
    }
}
