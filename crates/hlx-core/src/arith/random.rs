//! Counter-based random numbers: Philox 4x32-10 (Salmon et al., SC 2011).

use super::constants::*;
use super::{FloatOps, sqrt};

/// Four random words for a counter under a key.
#[inline(always)]
pub fn philox4x32(counter: [u32; 4], key: [u32; 2]) -> [u32; 4] {
    let [mut c0, mut c1, mut c2, mut c3] = counter;
    let [mut k0, mut k1] = key;
    for _ in 0..10 {
        let p0 = u64::from(PHILOX_M0) * u64::from(c0);
        let p1 = u64::from(PHILOX_M1) * u64::from(c2);
        (c0, c1, c2, c3) = (
            (p1 >> 32) as u32 ^ c1 ^ k0,
            p1 as u32,
            (p0 >> 32) as u32 ^ c3 ^ k1,
            p0 as u32,
        );
        k0 = k0.wrapping_add(PHILOX_W0);
        k1 = k1.wrapping_add(PHILOX_W1);
    }
    [c0, c1, c2, c3]
}

/// A word to `[0, 1)`: its upper 24 bits, exactly.
#[inline(always)]
pub fn uniform(word: u32) -> f32 {
    (word >> 8) as f32 * TWO_M24
}

/// Two words to two standard normal values (Box and Muller); the largest is 5.77.
#[inline(always)]
pub(super) fn normal_pair<A: FloatOps>(word_0: u32, word_1: u32) -> (f32, f32) {
    let u = ((word_0 >> 8) + 1) as f32 * TWO_M24; // (0, 1]
    let radius = sqrt(-2.0 * A::log(u));
    let angle = A::mul(TWO_PI, uniform(word_1));
    (A::mul(radius, A::cos(angle)), A::mul(radius, A::sin(angle)))
}
