//! Products with up to 16,384 terms against f64, within bounds that follow from the chain.
//!
//! A chain of K fused multiply-adds rounds K times. With u = 2^-24 and S = |start| + sum |a b|:
//! - always, its error is at most gamma(K) S, gamma(K) = K u / (1 - K u) (Higham, *Accuracy and
//!   Stability of Numerical Algorithms*, 2002, 3.1);
//! - where roundings are mean independent, at most 8 sqrt(K) u S except for one element in 10^9
//!   (Higham and Mary, *A new approach to probabilistic rounding error analysis*, 2019: probability
//!   2 K exp(-8^2 / 2)), 16 times less at K = 16,384.

use super::*;

const UNIT: f64 = 1.0 / (1 << 24) as f64;

/// Sum of the terms' magnitudes for each element.
fn magnitudes(case: &Case) -> Vec<f64> {
    let mut sums = vec![0.0; case.c.len()];
    case.for_each(|at, pairs, start| {
        sums[at] = pairs.fold(f64::from(start).abs(), |sum, (a, b)| {
            sum + (f64::from(a) * f64::from(b)).abs()
        });
    });
    sums
}

/// Checks every element against `relative` times the sum of its terms' magnitudes.
fn assert_within(name: &str, case: &Case, got: &[f32], relative: f64) {
    let (exact, magnitudes) = (case.exact(), magnitudes(case));
    for (at, got) in got.iter().enumerate() {
        let error = (f64::from(*got) - exact[at]).abs();
        let bound = relative * magnitudes[at];
        assert!(
            error <= bound,
            "{name}, K = {}, element {at}: error {error:e}, bound {bound:e}",
            case.shape.k
        );
    }
}

/// The bound that always holds.
fn gamma(k: usize) -> f64 {
    let all = k as f64 * UNIT;
    all / (1.0 - all)
}

#[test]
fn long_chains_of_random_terms_stay_within_the_probabilistic_bound() {
    let positive = |seed, len| normal(seed, len).into_iter().map(f32::abs).collect();
    for (i, k) in [1_000, 4_096, 16_384].into_iter().enumerate() {
        for data in [normal as fn(u64, usize) -> Vec<f32>, positive] {
            let case = Case::new(shape(32, 33, k, TRANSPOSES[i]), STARTS[i], data);
            let relative = 8.0 * (k as f64).sqrt() * UNIT;
            assert_within("random terms", &case, &case.run(SMALLEST), relative);
        }
    }
}

#[test]
fn long_chains_of_equal_terms_stay_within_the_bound_that_always_holds() {
    // Roundings of equal terms all point the same way.
    for k in [4_096, 16_384] {
        let third = |_: u64, len: usize| vec![1.0 / 3.0; len];
        let case = Case::new(shape(32, 33, k, [false, true]), From::Zero, third);
        assert_within("equal terms", &case, &case.run(SMALLEST), gamma(k));
    }
}
