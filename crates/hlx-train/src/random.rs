//! Random numbers of the training program: a counter, never a state.
//!
//! Every draw is a function of the run's seed, a purpose and two counters, so that a resumed run
//! draws what the uninterrupted one did. Initial weights and dropout masks have purposes of
//! their own in the layers below, counted from zero; these lie far above.

use hlx_core::arith::philox4x32;

/// What a stream of random numbers is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Purpose {
    /// The order of the samples in an epoch.
    EpochOrder = 0xf000_0000,
    /// Which samples are held out for evaluation.
    EvalSplit = 0xf000_0001,
    /// The bytes that `generate` draws.
    Generate = 0xf000_0002,
}

/// Returns the four words of a counter: `index` counts within `stream`.
pub fn words(seed: u64, purpose: Purpose, stream: u32, index: u32) -> [u32; 4] {
    let key = [seed as u32, (seed >> 32) as u32];
    philox4x32([index, 0, stream, purpose as u32], key)
}

/// Returns a permutation of `0..n` by Fisher and Yates's shuffle; draw i takes the upper part of
/// a 64-bit product, whose bias is below n / 2^32.
pub fn permutation(seed: u64, purpose: Purpose, stream: u32, n: usize) -> Vec<usize> {
    let mut order: Vec<usize> = (0..n).collect();
    for last in (1..n).rev() {
        let [word, ..] = words(seed, purpose, stream, last as u32);
        let chosen = (u64::from(word) * (last as u64 + 1)) >> 32;
        order.swap(last, chosen as usize);
    }
    order
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn permutations_hold_every_index_once_and_depend_on_all_counters() {
        let first = permutation(7, Purpose::EpochOrder, 0, 182);
        let mut sorted = first.clone();
        sorted.sort_unstable();
        assert!(sorted.into_iter().eq(0..182));
        assert_eq!(first, permutation(7, Purpose::EpochOrder, 0, 182));
        assert_ne!(first, permutation(7, Purpose::EpochOrder, 1, 182));
        assert_ne!(first, permutation(8, Purpose::EpochOrder, 0, 182));
        assert_ne!(
            first,
            permutation(7 | (1 << 40), Purpose::EpochOrder, 0, 182)
        );
        assert_ne!(first, permutation(7, Purpose::EvalSplit, 0, 182));
    }

    #[test]
    fn first_places_are_spread_evenly() {
        let mut counts = [0_u32; 5];
        for stream in 0..5000 {
            counts[permutation(3, Purpose::EpochOrder, stream, 5)[0]] += 1;
        }
        assert!(
            counts.iter().all(|count| (900..1100).contains(count)),
            "{counts:?}"
        );
    }
}
