//! Random moments from a printed seed (SplitMix64, Steele, Lea and Flood 2014).

use std::time::Duration;

/// A generator of 64-bit words.
pub struct Random(u64);

impl Random {
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// A moment between zero and `end`.
    pub fn below(&mut self, end: Duration) -> Duration {
        end.mul_f64((self.next() >> 11) as f64 / (1_u64 << 53) as f64)
    }

    /// A number below `end`.
    pub fn number(&mut self, end: usize) -> usize {
        (self.next() % end.max(1) as u64) as usize
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut word = self.0;
        word = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        word ^ (word >> 31)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_fill_their_range_and_repeat() {
        let second = Duration::from_secs(1);
        let draw = |seed| {
            let mut random = Random::new(seed);
            (0..1000).map(|_| random.below(second)).collect::<Vec<_>>()
        };
        let moments = draw(7);
        assert_eq!(moments, draw(7));
        assert!(moments.iter().all(|moment| *moment < second));
        let mean = moments.iter().sum::<Duration>().as_secs_f64() / 1000.0;
        assert!((mean - 0.5).abs() < 0.05, "{mean}");
    }
}
