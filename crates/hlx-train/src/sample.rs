//! Choosing the next byte from logits: the same choice on every machine.
//!
//! The logits' bits are equal on every device, and all that follows is HLX's arithmetic in a
//! fixed order (ids by falling logit, the lower id first among equals), so that a seed gives one
//! text everywhere.

use hlx_core::arith::{add, div, exp, mul, sub};
use hlx_core::cpu::with_flush;

use crate::random::{Purpose, words};

/// How the next byte is drawn.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Sampling {
    /// Divides the logits; 0 always takes the likeliest byte.
    pub temperature: f32,
    /// Draws from this many of the likeliest bytes; 0 from all.
    pub top_k: usize,
    /// Draws from the likeliest bytes that together have this probability.
    pub top_p: f32,
    /// Keys the draws.
    pub seed: u64,
}

impl Default for Sampling {
    fn default() -> Self {
        Self {
            temperature: 0.0,
            top_k: 0,
            top_p: 1.0,
            seed: 0,
        }
    }
}

impl Sampling {
    /// Returns the id chosen from `logits` as draw `index` of sequence `stream`.
    pub fn choose(&self, logits: &[f32], stream: u32, index: u32) -> usize {
        if self.temperature == 0.0 {
            return greedy(logits);
        }
        let [word, ..] = words(self.seed, Purpose::Generate, stream, index);
        with_flush(|| self.draw(logits, word))
    }

    fn draw(&self, logits: &[f32], word: u32) -> usize {
        let mut ids: Vec<usize> = (0..logits.len()).collect();
        ids.sort_by(|&a, &b| order(logits[a], logits[b]).then(a.cmp(&b)));
        let kept = if self.top_k == 0 {
            ids.len()
        } else {
            self.top_k.min(ids.len())
        };
        let weights = self.weights(logits, &ids[..kept]);
        let total = self.nucleus(&weights);
        // A word's upper 24 bits are an exact f32 in [0, 1).
        let target = mul(mul((word >> 8) as f32, 1.0 / 16_777_216.0), total);
        let mut behind = 0.0;
        for (&id, &weight) in ids.iter().zip(&weights) {
            behind = add(behind, weight);
            if target < behind {
                return id;
            }
        }
        ids[0]
    }

    /// exp((logit - largest) / temperature), by falling logit.
    fn weights(&self, logits: &[f32], ids: &[usize]) -> Vec<f32> {
        let largest = logits[ids[0]];
        ids.iter()
            .map(|&id| exp(div(sub(logits[id], largest), self.temperature)))
            .collect()
    }

    /// The weight of the shortest front whose share reaches `top_p`.
    fn nucleus(&self, weights: &[f32]) -> f32 {
        let total = weights.iter().fold(0.0, |sum, &weight| add(sum, weight));
        let wanted = mul(self.top_p, total);
        let mut behind = 0.0;
        for &weight in weights {
            behind = add(behind, weight);
            if behind >= wanted {
                break;
            }
        }
        behind
    }
}

/// The id of the largest logit, the lowest of equals; a NaN is below everything.
pub fn greedy(logits: &[f32]) -> usize {
    let mut best = 0;
    for (id, &logit) in logits.iter().enumerate() {
        if logit > logits[best] || (logits[best].is_nan() && !logit.is_nan()) {
            best = id;
        }
    }
    best
}

/// Larger first; NaN last.
fn order(a: f32, b: f32) -> std::cmp::Ordering {
    b.partial_cmp(&a)
        .unwrap_or_else(|| a.is_nan().cmp(&b.is_nan()))
}

#[cfg(test)]
mod tests {
    use super::*;

    const LOGITS: [f32; 5] = [1.0, 3.0, 2.0, 3.0, f32::NAN];

    fn counts(sampling: Sampling) -> [usize; 5] {
        let mut counts = [0; 5];
        for index in 0..4000 {
            counts[sampling.choose(&LOGITS[..4], 0, index)] += 1;
        }
        counts
    }

    #[test]
    fn greedy_takes_the_first_of_the_largest() {
        assert_eq!(greedy(&LOGITS), 1);
        assert_eq!(greedy(&[f32::NAN, -1.0]), 1);
        assert_eq!(Sampling::default().choose(&LOGITS, 0, 0), 1);
    }

    #[test]
    fn draws_follow_the_distribution() {
        let hot = Sampling {
            temperature: 1.0,
            ..Sampling::default()
        };
        let all = counts(hot);
        let shares = [0.054, 0.399, 0.147, 0.399];
        for (count, share) in all.iter().zip(shares) {
            assert!((*count as f64 / 4000.0 - share).abs() < 0.03, "{all:?}");
        }
        let two = counts(Sampling { top_k: 2, ..hot });
        assert_eq!((two[0], two[2]), (0, 0));
        let narrow = counts(Sampling { top_p: 0.3, ..hot });
        assert_eq!(narrow[1], 4000);
        let most = counts(Sampling { top_p: 0.9, ..hot });
        assert!(most[0] == 0 && most[2] > 0, "{most:?}");
    }

    #[test]
    fn the_seed_the_stream_and_the_index_decide() {
        let hot = Sampling {
            temperature: 1.0,
            seed: 4,
            ..Sampling::default()
        };
        let text = |sampling: Sampling, stream| -> Vec<usize> {
            (0..64)
                .map(|index| sampling.choose(&LOGITS[..4], stream, index))
                .collect()
        };
        assert_eq!(text(hot, 0), text(hot, 0));
        assert_ne!(text(hot, 0), text(hot, 1));
        assert_ne!(text(hot, 0), text(Sampling { seed: 5, ..hot }, 0));
    }
}
