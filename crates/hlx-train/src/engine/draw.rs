//! From logits to a token: what a request adds to them, log-probabilities and digests.

use std::cmp::Ordering;
use std::collections::BTreeMap;

use hlx_core::arith::{add, exp, log, mul, sub};
use hlx_core::cpu::with_flush;
use hlx_kernels::lanes;
use sha2::{Digest as _, Sha256};

use super::request::{Logprobs, Request};
use crate::sample::greedy;

/// What is subtracted from logits to make log-probabilities: (l - largest) - log(sum of exp(l - largest)), the sum in the
/// order of `hlx_kernels::lanes`. So a log-probability is the loss that training computes for the token, with the other
/// sign, bit for bit.
struct Normaliser {
    largest: f32,
    log_sum: f32,
}

impl Normaliser {
    fn of(logits: &[f32]) -> Self {
        let largest = logits[greedy(logits)];
        let sum = lanes::sum([logits], |[logit]| exp(sub(logit, largest)));
        Self {
            largest,
            log_sum: log(sum),
        }
    }

    fn apply(&self, logit: f32) -> f32 {
        sub(sub(logit, self.largest), self.log_sum)
    }
}

/// The log-probability of a token under logits, and those of the `n_top` likeliest, in HLX's arithmetic.
pub fn log_probabilities(logits: &[f32], id: u32, n_top: usize) -> Logprobs {
    with_flush(|| {
        let normaliser = Normaliser::of(logits);
        let mut ids: Vec<u32> = (0..logits.len() as u32).collect();
        let by_logit = |a: &u32, b: &u32| {
            let [x, y] = [logits[*a as usize], logits[*b as usize]];
            y.partial_cmp(&x).unwrap_or(Ordering::Equal).then(a.cmp(b))
        };
        let n_top = n_top.min(ids.len());
        if n_top < ids.len() && n_top > 0 {
            ids.select_nth_unstable_by(n_top - 1, by_logit);
        }
        ids.truncate(n_top);
        ids.sort_unstable_by(by_logit);
        let of = |id: u32| normaliser.apply(logits[id as usize]);
        Logprobs {
            id,
            own: of(id),
            top: ids.into_iter().map(|id| (id, of(id))).collect(),
        }
    })
}

/// Logits with a request's bias and penalties, where `n_times` says how often the answer has each token that it has.
pub(super) fn weighed(request: &Request, logits: &[f32], n_times: &BTreeMap<u32, u32>) -> Vec<f32> {
    with_flush(|| {
        let mut logits = logits.to_vec();
        for &(id, bias) in &request.logit_bias {
            let logit = &mut logits[id as usize];
            *logit = add(*logit, bias);
        }
        for (&id, &n) in n_times {
            let logit = &mut logits[id as usize];
            let penalty = mul(n as f32, request.frequency_penalty);
            *logit = sub(*logit, add(penalty, request.presence_penalty));
        }
        logits
    })
}

/// SHA-256 of logits as little-endian bytes.
pub(super) fn digest_of(logits: &[f32]) -> [u8; 32] {
    let mut hasher = Sha256::new();
    for piece in logits.chunks(1024) {
        let bytes: Vec<u8> = piece.iter().flat_map(|logit| logit.to_le_bytes()).collect();
        hasher.update(&bytes);
    }
    hasher.finalize().into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn log_probabilities_are_those_of_f64_and_ordered() {
        let logits: Vec<f32> = (0..500_u32)
            .map(|id| (id.wrapping_mul(2_654_435_761) >> 25) as f32 / 8.0)
            .collect();
        let sum: f64 = logits.iter().map(|&logit| f64::from(logit).exp()).sum();
        let found = log_probabilities(&logits, 7, 20);
        assert!((f64::from(found.own) - (f64::from(logits[7]) - sum.ln())).abs() < 1e-5);
        assert_eq!(found.top.len(), 20);
        let pairs = found.top.windows(2);
        assert!(pairs.clone().all(|pair| pair[0].1 >= pair[1].1));
        assert!(
            pairs
                .clone()
                .any(|pair| pair[0].1 == pair[1].1 && pair[0].0 < pair[1].0)
        );
        let beyond = logits
            .iter()
            .filter(|&&logit| logit > logits[found.top[19].0 as usize]);
        assert!(beyond.count() < 20);
        assert!(log_probabilities(&logits, 7, 0).top.is_empty());
        assert_eq!(log_probabilities(&logits, 7, 1000).top.len(), 500);
    }

    /// Of vocabularies that are no multiple of the lanes, and longer than a piece of a general sum.
    #[test]
    fn log_probabilities_are_the_losses_of_training() {
        let device = hlx_core::testing::cpu().expect("opens");
        for vocabulary in [1_u32, 2, 127, 128, 129, 5003] {
            let logits: Vec<f32> = (0..vocabulary)
                .map(|id| (id.wrapping_mul(2_654_435_761) >> 20) as f32 / 300.0 - 6.0)
                .collect();
            let ids = [0, vocabulary / 2, vocabulary - 1];
            let rows: Vec<f32> = logits.repeat(ids.len());
            let tensor = |values: &[f32], shape: &[usize]| {
                hlx_autograd::Tensor::from_slice(&device, values, shape).expect("is made")
            };
            let targets = hlx_autograd::Tensor::from_slice::<u32>(&device, &ids, &[3]);
            let (_, losses) = tensor(&rows, &[3, vocabulary as usize])
                .cross_entropy_with_rows(&targets.expect("is made"), &tensor(&[1.0], &[1]), 0.0)
                .expect("is computed");
            for (id, loss) in ids.iter().zip(losses.to_vec::<f32>().expect("is read")) {
                let found = log_probabilities(&logits, *id, 0).own;
                // Where one token has all, the loss is +0, and so is its log-probability.
                assert_eq!(
                    (0.0 - loss).to_bits(),
                    found.to_bits(),
                    "{id} of {vocabulary}"
                );
            }
        }
    }

    #[test]
    fn bias_and_penalties_are_of_the_tokens_that_they_name() {
        let request = Request {
            presence_penalty: 0.5,
            frequency_penalty: 0.25,
            logit_bias: vec![(0, 1.0), (2, -100.0)],
            ..Request::new(vec![1], 1)
        };
        let found = weighed(
            &request,
            &[1.0, 2.0, 3.0, 4.0],
            &BTreeMap::from([(1, 3), (2, 1)]),
        );
        assert_eq!(found, [2.0, 0.75, -97.75, 4.0]);
    }
}
