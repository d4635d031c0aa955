//! Random numbers of the training program: a counter, never a state.
//!
//! Every draw is a function of the run's seed, a purpose and two counters, so that a resumed run
//! draws what the uninterrupted one did. Initial weights and dropout masks have purposes of
//! their own in the layers below, counted from zero; these lie far above.

use hlx_data::random;

/// What a stream of random numbers is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Purpose {
    /// The order of the samples in an epoch.
    EpochOrder = random::EPOCH_ORDER,
    /// Which samples are held out for evaluation.
    EvalSplit = 0xf000_0001,
    /// The bytes that `generate` draws.
    Generate = 0xf000_0002,
    /// Where the windows of a text begin.
    Window = 0xf000_0003,
}

/// Returns the four words of a counter: `index` counts within `stream`.
pub fn words(seed: u64, purpose: Purpose, stream: u32, index: u32) -> [u32; 4] {
    random::words(seed, purpose as u32, stream, index)
}

/// Returns a permutation of `0..n`, as [`hlx_data::random::permutation`].
pub fn permutation(seed: u64, purpose: Purpose, stream: u32, n: usize) -> Vec<usize> {
    random::permutation(seed, purpose as u32, stream, n)
}
