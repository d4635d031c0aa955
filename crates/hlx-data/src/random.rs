//! Random numbers of data: a counter, never a state.
//!
//! Every draw is a function of a seed, a purpose and counters (Philox 4x32-10), so that a resumed run
//! draws what the uninterrupted one did, on any number of threads. Initial weights and dropout masks
//! have purposes from `0x4000_0000` on in the layers; those below are the data's.

use hlx_core::arith::philox4x32;

/// The purpose of the order of the samples in an epoch.
pub const EPOCH_ORDER: u32 = 0xf000_0000;
/// Where an image is cropped and whether it is flipped.
pub(crate) const AUGMENT: u32 = 1;
/// The key of an image's noise.
pub(crate) const NOISE: u32 = 2;
/// How a digit is drawn.
pub(crate) const DIGIT: u32 = 3;
/// Which English is said, and how.
pub(crate) const ASCII_PAIR: u32 = 4;
/// The colours of drawn images.
pub(crate) const COLOUR: u32 = 5;

/// Returns the four words of a counter: `index` counts within `stream`.
pub fn words(seed: u64, purpose: u32, stream: u32, index: u32) -> [u32; 4] {
    philox4x32([index, 0, stream, purpose], key_of(seed))
}

/// Returns a permutation of `0..n` by Fisher and Yates's shuffle; draw i takes the upper part of
/// a 64-bit product, whose bias is below n / 2^32.
pub fn permutation(seed: u64, purpose: u32, stream: u32, n: usize) -> Vec<usize> {
    let mut order: Vec<usize> = (0..n).collect();
    for last in (1..n).rev() {
        let [word, ..] = words(seed, purpose, stream, last as u32);
        let chosen = (u64::from(word) * (last as u64 + 1)) >> 32;
        order.swap(last, chosen as usize);
    }
    order
}

/// A word to a whole number below `n`.
pub(crate) fn below(word: u32, n: u32) -> u32 {
    ((u64::from(word) * u64::from(n)) >> 32) as u32
}

fn key_of(seed: u64) -> [u32; 2] {
    [seed as u32, (seed >> 32) as u32]
}

/// What keys the random numbers of one sample: nothing else may, so that an augmentation depends on
/// no batch, worker or thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SampleKey {
    /// The loader's seed.
    pub seed: u64,
    /// The epoch.
    pub epoch: u64,
    /// The sample's index in the data set.
    pub sample: usize,
}

impl SampleKey {
    /// Returns the four words of a draw: `index` counts the draws of one purpose. The purpose is the
    /// caller's choice, from 16 up to `0x3fff_ffff`; smaller ones are HLX's own.
    pub fn words(&self, purpose: u32, index: u32) -> [u32; 4] {
        let counter = [index, self.sample as u32, self.epoch as u32, purpose];
        philox4x32(counter, key_of(self.seed))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn permutations_hold_every_index_once_and_depend_on_all_counters() {
        let first = permutation(7, EPOCH_ORDER, 0, 182);
        let mut sorted = first.clone();
        sorted.sort_unstable();
        assert!(sorted.into_iter().eq(0..182));
        assert_eq!(first, permutation(7, EPOCH_ORDER, 0, 182));
        assert_ne!(first, permutation(7, EPOCH_ORDER, 1, 182));
        assert_ne!(first, permutation(8, EPOCH_ORDER, 0, 182));
        assert_ne!(first, permutation(7 | (1 << 40), EPOCH_ORDER, 0, 182));
        assert_ne!(first, permutation(7, EPOCH_ORDER + 1, 0, 182));
    }

    #[test]
    fn first_places_are_spread_evenly() {
        let mut counts = [0_u32; 5];
        for stream in 0..5000 {
            counts[permutation(3, EPOCH_ORDER, stream, 5)[0]] += 1;
        }
        assert!(
            counts.iter().all(|count| (900..1100).contains(count)),
            "{counts:?}"
        );
    }

    #[test]
    fn a_samples_draws_depend_on_each_part_of_its_key() {
        let key = SampleKey {
            seed: 1,
            epoch: 2,
            sample: 3,
        };
        let first = key.words(16, 0);
        assert_eq!(first, key.words(16, 0));
        assert_ne!(first, key.words(16, 1));
        assert_ne!(first, key.words(17, 0));
        assert_ne!(first, SampleKey { seed: 2, ..key }.words(16, 0));
        assert_ne!(first, SampleKey { epoch: 3, ..key }.words(16, 0));
        assert_ne!(first, SampleKey { sample: 2, ..key }.words(16, 0));
    }
}
