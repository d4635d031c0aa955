//! HLX functions against f64, and the random numbers.

mod emulation;
mod sequences;

use super::reference::{self, Inputs, edges, ulps};
use super::*;
use crate::cpu::with_flush;
use crate::multiversion;

/// Equal bits, or both NaN.
fn same(a: f32, b: f32) -> bool {
    a.to_bits() == b.to_bits() || (a.is_nan() && b.is_nan())
}

/// The edges, `n` floats of any bits and `n` of the exponents where the function is not trivial.
fn inputs(seed: u64, n: usize, exponents: std::ops::RangeInclusive<i32>) -> Vec<f32> {
    let mut random = Inputs::new(seed);
    let mut all = edges();
    all.extend((0..n).map(|_| random.any()));
    all.extend((0..n).map(|_| random.scaled(exponents.clone())));
    all.iter().map(|x| flush(*x)).collect()
}

/// Asserts a bound in ulp over `inputs`.
fn assert_bound(name: &str, inputs: &[f32], got: &[f32], exact: impl Fn(f64) -> f64, bound: f64) {
    let errors = inputs
        .iter()
        .zip(got)
        .map(|(x, y)| (ulps(*y, exact(f64::from(*x))), *x));
    let (error, x) = errors.fold(
        (0.0, 0.0),
        |worst, one| if one.0 > worst.0 { one } else { worst },
    );
    assert!(
        error <= bound,
        "{name}({x:e}) is {error:.3} ulp off, more than {bound}"
    );
    assert!(
        error >= 0.5 * bound,
        "{name}: {error:.3} ulp seen, the bound {bound} is loose"
    );
}

macro_rules! bound_test {
    ($test:ident, $function:ident, $exact:expr, $exponents:expr, $bound:expr) => {
        #[test]
        fn $test() {
            multiversion! { fn all<A>(inputs: &[f32], outputs: &mut [f32]) {
                for (y, x) in outputs.iter_mut().zip(inputs) {
                    *y = A::$function(*x);
                }
            } }
            let inputs = inputs(1, 2_000_000, $exponents);
            let mut got = vec![f32::NAN; inputs.len()];
            with_flush(|| all(&inputs, &mut got));
            for (x, y) in inputs.iter().zip(&got).step_by(23) {
                let host = with_flush(|| $function(*x));
                assert!(
                    same(host, *y),
                    "on the host {host:e}, in a kernel {y:e} of {x:e}"
                );
            }
            assert_bound(stringify!($function), &inputs, &got, $exact, $bound);
        }
    };
}

mod functions;

bound_test!(
    rsqrt_is_within_its_bound,
    rsqrt,
    |x| 1.0 / x.abs().sqrt() * if x < 0.0 { f64::NAN } else { 1.0 },
    -3..=3,
    0.75
);
bound_test!(exp_is_within_its_bound, exp, f64::exp, -14..=6, 1.02);
bound_test!(
    log_is_within_its_bound,
    log,
    |x| if x == 0.0 { f64::NEG_INFINITY } else { x.ln() },
    -2..=2,
    0.9
);
bound_test!(
    sigmoid_is_within_its_bound,
    sigmoid,
    |x| 1.0 / (1.0 + (-x).exp()),
    -8..=6,
    2.0
);
bound_test!(tanh_is_within_its_bound, tanh, f64::tanh, -13..=4, 2.0);
bound_test!(erf_is_within_its_bound, erf, reference::erf, -13..=2, 1.2);
bound_test!(sin_is_within_its_bound, sin, f64::sin, -5..=17, 1.6);
bound_test!(cos_is_within_its_bound, cos, f64::cos, -5..=17, 1.6);

#[test]
fn zeros_infinities_and_nan_are_as_documented() {
    let (inf, nan) = (f32::INFINITY, f32::NAN);
    let cases: [(&str, f32, f32); 28] = [
        ("exp(-inf)", exp(-inf), 0.0),
        ("exp(inf)", exp(inf), inf),
        ("exp(-0)", exp(-0.0), 1.0),
        ("exp(nan)", exp(nan), nan),
        ("log(inf)", log(inf), inf),
        ("log(-0)", log(-0.0), -inf),
        ("log(-1)", log(-1.0), nan),
        ("log(nan)", log(nan), nan),
        ("log(1)", log(1.0), 0.0),
        ("sigmoid(-inf)", sigmoid(-inf), 0.0),
        ("sigmoid(inf)", sigmoid(inf), 1.0),
        ("sigmoid(0)", sigmoid(0.0), 0.5),
        ("tanh(inf)", tanh(inf), 1.0),
        ("tanh(-inf)", tanh(-inf), -1.0),
        ("tanh(-0)", tanh(-0.0), -0.0),
        ("erf(inf)", erf(inf), 1.0),
        ("erf(-inf)", erf(-inf), -1.0),
        ("erf(-0)", erf(-0.0), -0.0),
        ("sin(inf)", sin(inf), nan),
        ("sin(-0)", sin(-0.0), -0.0),
        ("cos(inf)", cos(-inf), nan),
        ("cos(0)", cos(0.0), 1.0),
        ("rsqrt(-0)", rsqrt(-0.0), inf),
        ("rsqrt(inf)", rsqrt(inf), 0.0),
        ("rsqrt(-1)", rsqrt(-1.0), nan),
        ("max(1, nan)", max(1.0, nan), nan),
        ("max(nan, 1)", max(nan, 1.0), nan),
        ("max(-0, +0)", max(-0.0, 0.0), 0.0),
    ];
    for (name, got, want) in cases {
        assert!(same(got, want), "{name} is {got:e}, expected {want:e}");
    }
}

/// The known answers published with the generator (Random123, `kat_vectors`).
#[test]
fn philox_gives_the_published_answers() {
    let cases = [
        (
            [0; 4],
            [0; 2],
            [0x6627_e8d5, 0xe169_c58d, 0xbc57_ac4c, 0x9b00_dbd8],
        ),
        (
            [u32::MAX; 4],
            [u32::MAX; 2],
            [0x408f_276d, 0x41c8_3b0e, 0xa20b_c7c6, 0x6d54_51fd],
        ),
        (
            [0x243f_6a88, 0x85a3_08d3, 0x1319_8a2e, 0x0370_7344],
            [0xa409_3822, 0x299f_31d0],
            [0xd16c_fe09, 0x94fd_cceb, 0x5001_e420, 0x2412_6ea1],
        ),
    ];
    for (counter, key, want) in cases {
        assert_eq!(philox4x32(counter, key), want);
    }
}

#[test]
fn normal_values_have_the_moments_of_the_normal_distribution() {
    let n = 200_000_u32;
    let (mut sum, mut square, mut fourth) = (0.0, 0.0, 0.0);
    for idx in 0..n {
        let [a, b, _, _] = philox4x32([idx, 0, 0, 0], [1, 2]);
        let (x, y) = normal_pair(a, b);
        for x in [f64::from(x), f64::from(y)] {
            sum += x;
            square += x * x;
            fourth += x.powi(4);
        }
    }
    let n = f64::from(2 * n);
    assert!((sum / n).abs() < 0.01, "mean {}", sum / n);
    assert!((square / n - 1.0).abs() < 0.01, "variance {}", square / n);
    assert!(
        (fourth / n - 3.0).abs() < 0.06,
        "fourth moment {}",
        fourth / n
    );
}
