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
    /// Draws from the bytes that have at least this part of the likeliest one's probability; 0 from all.
    pub min_p: f32,
    /// Divides the logits of bytes that are there already, the prompt's too, and multiplies them where
    /// they are negative (Keskar and others 2019); 1 changes nothing.
    pub repetition_penalty: f32,
    /// Keys the draws.
    pub seed: u64,
}

impl Default for Sampling {
    fn default() -> Self {
        Self {
            temperature: 0.0,
            top_k: 0,
            top_p: 1.0,
            min_p: 0.0,
            repetition_penalty: 1.0,
            seed: 0,
        }
    }
}

impl Sampling {
    /// The first number that is out of its range: its name, and what is wrong with it.
    pub fn fault(&self) -> Option<(&'static str, String)> {
        let &Self {
            temperature,
            top_p,
            min_p,
            repetition_penalty,
            ..
        } = self;
        let fault =
            |name, number: f32, expected| Some((name, format!("{number} is not {expected}")));
        match () {
            _ if !(temperature >= 0.0 && temperature.is_finite()) => {
                fault("temperature", temperature, "at least 0")
            }
            _ if !(top_p > 0.0 && top_p <= 1.0) => fault("top_p", top_p, "above 0 and at most 1"),
            _ if !(0.0..=1.0).contains(&min_p) => fault("min_p", min_p, "from 0 to 1"),
            _ if !(repetition_penalty > 0.0 && repetition_penalty.is_finite()) => {
                fault("repetition_penalty", repetition_penalty, "above 0")
            }
            _ => None,
        }
    }

    /// Whether the id of the largest logit is always chosen ([`greedy`]).
    pub fn is_greedy(&self) -> bool {
        self.temperature == 0.0 && self.repetition_penalty == 1.0
    }

    /// Returns the id chosen from `logits` as draw `index` of text `stream`, which has the ids `before`
    /// already. The steps are in the order of the `transformers` library: penalty, temperature, `top_k`,
    /// `top_p`, `min_p`.
    pub fn choose<Id: Copy + Into<u32>>(
        &self,
        logits: &[f32],
        before: &[Id],
        stream: u32,
        index: u32,
    ) -> usize {
        with_flush(|| {
            let penalised = self.penalised(logits, before);
            let logits = penalised.as_deref().unwrap_or(logits);
            if self.temperature == 0.0 {
                return greedy(logits);
            }
            let [word, ..] = words(self.seed, Purpose::Generate, stream, index);
            self.draw(logits, word)
        })
    }

    /// The logits with the penalty of what is there already; `None` without a penalty.
    fn penalised<Id: Copy + Into<u32>>(&self, logits: &[f32], before: &[Id]) -> Option<Vec<f32>> {
        if self.repetition_penalty == 1.0 {
            return None;
        }
        let mut seen = vec![false; logits.len()];
        for &id in before {
            if let Some(seen) = seen.get_mut(id.into() as usize) {
                *seen = true;
            }
        }
        let penalise = |(&logit, seen): (&f32, bool)| match (seen, logit < 0.0) {
            (false, _) => logit,
            (true, false) => div(logit, self.repetition_penalty),
            (true, true) => mul(logit, self.repetition_penalty),
        };
        Some(logits.iter().zip(seen).map(penalise).collect())
    }

    fn draw(&self, logits: &[f32], word: u32) -> usize {
        self.draw_among(logits, self.candidates(logits), word)
    }

    fn draw_among(&self, logits: &[f32], mut ids: Vec<usize>, word: u32) -> usize {
        ids.sort_unstable_by(|&a, &b| order(logits[a], logits[b]).then(a.cmp(&b)));
        let n_drawn_from = if self.top_k == 0 {
            ids.len()
        } else {
            self.top_k.min(ids.len())
        };
        let weights = self.weights(logits, &ids[..n_drawn_from]);
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

    /// The ids whose weights can move a sum of weights. The first weight is 1, and a sum of at least 1 retains
    /// its bits when less than 2^-25 is added: exp(-18) is half of that.
    fn candidates(&self, logits: &[f32]) -> Vec<usize> {
        let ids = 0..logits.len();
        if logits.iter().any(|logit| logit.is_nan()) {
            return ids.collect();
        }
        let largest = logits[greedy(logits)];
        let is_light = |logit: f32| div(sub(logit, largest), self.temperature) < -18.0;
        ids.filter(|&id| !is_light(logits[id])).collect()
    }

    /// exp((logit - largest) / temperature), by falling logit.
    fn weights(&self, logits: &[f32], ids: &[usize]) -> Vec<f32> {
        let largest = logits[ids[0]];
        ids.iter()
            .map(|&id| exp(div(sub(logits[id], largest), self.temperature)))
            .collect()
    }

    /// The weight of the shortest front whose share reaches `top_p`, without those below `min_p` of the
    /// first.
    fn nucleus(&self, weights: &[f32]) -> f32 {
        let total = weights.iter().fold(0.0, |sum, &weight| add(sum, weight));
        let wanted = mul(self.top_p, total);
        let mut behind = 0.0;
        for &weight in weights {
            // The first, exp(0), has the weight 1.
            if weight < self.min_p {
                break;
            }
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
            counts[sampling.choose::<u8>(&LOGITS[..4], &[], 0, index)] += 1;
        }
        counts
    }

    #[test]
    fn greedy_takes_the_first_of_the_largest() {
        assert_eq!(greedy(&LOGITS), 1);
        assert_eq!(greedy(&[f32::NAN, -1.0]), 1);
        assert_eq!(Sampling::default().choose::<u8>(&LOGITS, &[], 0, 0), 1);
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
        let few = counts(Sampling { top_p: 0.3, ..hot });
        assert_eq!(few[1], 4000);
        let most = counts(Sampling { top_p: 0.9, ..hot });
        assert!(most[0] == 0 && most[2] > 0, "{most:?}");
        // The third has exp(-1) = 0.37 of the first's probability, the fourth exp(-2) = 0.14.
        let likely = counts(Sampling { min_p: 0.3, ..hot });
        assert!(likely[0] == 0 && likely[2] > 0, "{likely:?}");
        let likeliest = counts(Sampling { min_p: 0.5, ..hot });
        assert_eq!((likeliest[0], likeliest[2]), (0, 0));
    }

    /// Logits over a hundred wide, in steps so that many are equal.
    #[test]
    fn candidates_draw_what_all_ids_draw() {
        let logits: Vec<f32> = (0..3000_u32)
            .map(|id| (id.wrapping_mul(2_654_435_761) >> 21) as f32 / 16.0 - 60.0)
            .collect();
        let hot = Sampling {
            temperature: 1.0,
            ..Sampling::default()
        };
        for sampling in [
            hot,
            Sampling {
                temperature: 0.2,
                ..hot
            },
            Sampling {
                temperature: 4.0,
                ..hot
            },
            Sampling { top_k: 40, ..hot },
            Sampling {
                top_p: 0.9,
                min_p: 1e-3,
                ..hot
            },
        ] {
            assert!(sampling.candidates(&logits).len() < logits.len());
            for word in (0..=u32::MAX).step_by(0x0123_4567).chain([u32::MAX]) {
                let all = (0..logits.len()).collect();
                let want = sampling.draw_among(&logits, all, word);
                assert_eq!(sampling.draw(&logits, word), want, "{sampling:?}");
            }
        }
    }

    #[test]
    fn a_penalty_is_of_what_is_there() {
        let greedy = Sampling {
            repetition_penalty: 2.0,
            ..Sampling::default()
        };
        let logits = [1.0, 3.0, 2.0, -1.0];
        assert_eq!(greedy.choose::<u8>(&logits, &[], 0, 0), 1);
        assert_eq!(greedy.choose(&logits, &[1_u8], 0, 0), 2);
        assert_eq!(greedy.choose(&logits, &[1_u32, 2, 1], 0, 0), 1, "once each");
        let negative = [-3.0, -2.0];
        assert_eq!(greedy.choose(&negative, &[1_u8], 0, 0), 0);
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
                .map(|index| sampling.choose::<u8>(&LOGITS[..4], &[], stream, index))
                .collect()
        };
        assert_eq!(text(hot, 0), text(hot, 0));
        assert_ne!(text(hot, 0), text(hot, 1));
        assert_ne!(text(hot, 0), text(Sampling { seed: 5, ..hot }, 0));
    }
}
