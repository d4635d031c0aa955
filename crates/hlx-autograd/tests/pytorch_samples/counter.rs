//! The counter-based values that `fixtures/sample_encoding.py` draws, made again.

const SPECIAL: u64 = 0x9E37_79B9_7F4A_7C15;

/// The finaliser of splitmix64.
pub fn mixed(word: u64) -> u64 {
    let word = (word ^ (word >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let word = (word ^ (word >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    word ^ (word >> 31)
}

/// Word `i` of a series.
pub fn hashed(seed: u64, i: usize) -> u64 {
    mixed(SPECIAL.wrapping_mul(seed + 1).wrapping_add(i as u64))
}

/// `n` values from `low` to `high` (excluded), whole ones on demand.
pub fn drawn(seed: u64, range: (f64, f64), n: usize, whole: bool) -> Vec<f64> {
    let (low, high) = range;
    let value = |i: usize| {
        let unit = (hashed(seed, i) >> 40) as f64 / 16_777_216.0;
        let distance = unit * (high - low);
        low + if whole { distance.floor() } else { distance }
    };
    (0..n).map(value).collect()
}
