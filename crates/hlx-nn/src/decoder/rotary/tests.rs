//! Frequencies against those of `transformers`, and numbers that are refused.

use super::*;

const PLAIN: [f32; 4] = [1.0, 0.1, 0.01, 0.001];
const LLAMA3: [f32; 4] = [1.0, 0.014_865_089, 0.001_767_767, 0.000_210_224_1];
const YARN: [f32; 4] = [1.0, 0.025, 0.0025, 0.000_25];

#[test]
fn logarithm_and_exponential_are_those_of_f64() {
    for x in [1.0, 1e-3, 0.7, 1.5, 2.0, 10.0, 500_000.0, 1e6, 3e-30] {
        assert!(
            (ln(x) - x.ln()).abs() <= 2e-15 * x.ln().abs().max(1.0),
            "{x}"
        );
    }
    for x in [0.0, -1e-9, 0.3, -13.8, -0.0001, 5.0, 100.0, -100.0] {
        assert!((exp(x) / x.exp() - 1.0).abs() < 2e-14, "{x}");
    }
}

/// Values of `transformers` 5.23, `ROPE_INIT_FUNCTIONS`, in f32.
#[test]
fn frequencies_are_those_of_transformers() {
    let near = |rotary: &Rotary, expected: &[f32]| {
        let found = rotary.frequencies(2 * expected.len(), 64);
        for (found, expected) in found.iter().zip(expected) {
            assert!(
                (found / expected - 1.0).abs() < 3e-7,
                "{rotary:?}: {found} {expected}"
            );
        }
    };
    near(&Rotary::plain(10_000.0), &PLAIN);
    let scaling = Some(RopeScaling::Llama3 {
        factor: 8.0,
        low_freq_factor: 1.0,
        high_freq_factor: 4.0,
        original: 32,
    });
    let theta = 5_000.0;
    near(
        &Rotary {
            scaling,
            ..Rotary::plain(theta)
        },
        &LLAMA3,
    );
    let scaling = Some(RopeScaling::Yarn {
        factor: 4.0,
        original: 16,
        beta_fast: 32.0,
        beta_slow: 1.0,
        attention_factor: RopeScaling::yarn_attention_factor(4.0),
        truncate: true,
    });
    let yarn = Rotary {
        scaling,
        ..Rotary::plain(10_000.0)
    };
    near(&yarn, &YARN);
    assert!((yarn.attention_factor() - 1.138_629_4).abs() < 1e-6);
}

/// The formulas of `ROPE_INIT_FUNCTIONS["longrope"]` and `["dynamic"]` of `transformers` 5.23.
#[test]
fn long_models_take_the_long_factors() {
    let (short_factor, long_factor) = (vec![1.0, 1.1, 1.25, 1.5], vec![1.0, 2.0, 8.0, 32.0]);
    let rotary = Rotary {
        scaling: Some(RopeScaling::LongRope {
            original: 16,
            short_factor: short_factor.clone(),
            long_factor: long_factor.clone(),
            attention_factor: RopeScaling::long_rope_attention_factor(4.0, 16),
        }),
        ..Rotary::plain(10_000.0)
    };
    for (max_positions, factors) in [(16, &short_factor), (17, &long_factor)] {
        let found = rotary.frequencies(8, max_positions);
        for ((found, plain), factor) in found.iter().zip(PLAIN).zip(factors) {
            let expected = f64::from(plain) / factor;
            assert!((f64::from(*found) / expected - 1.0).abs() < 3e-7);
        }
    }
    // sqrt(1 + ln 4 / ln 16)
    assert!((rotary.attention_factor() - 1.5_f32.sqrt()).abs() < 1e-6);
    assert_eq!(RopeScaling::long_rope_attention_factor(1.0, 16), 1.0);
    let error = rotary.check(10).expect_err("five pairs");
    assert_eq!(
        error,
        "rotary short_factor has 4 numbers, expected 5 above 0"
    );
    let dynamic = Rotary {
        scaling: Some(RopeScaling::Dynamic { factor: 4.0 }),
        ..Rotary::plain(10_000.0)
    };
    assert_eq!(
        dynamic.frequencies(8, 64),
        Rotary::plain(10_000.0).frequencies(8, 64)
    );
}
