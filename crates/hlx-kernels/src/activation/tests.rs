//! Activations: bits of all devices, and every kind against f64.

use super::*;
use crate::testing::{assert_close, normal, run_everywhere, values};
use hlx_core::testing::cases;

/// The derivative by central differences of the f64 reference.
fn slope(kind: Activation, x: f64) -> f64 {
    const STEP: f64 = 1e-5;
    if kind == Activation::ReLU {
        return if x > 0.0 { 1.0 } else { 0.0 };
    }
    (reference(kind, x + STEP) - reference(kind, x - STEP)) / (2.0 * STEP)
}

fn reference(kind: Activation, x: f64) -> f64 {
    match kind {
        Activation::GELU => 0.5 * x * (1.0 + erf_f64(x / 2.0_f64.sqrt())),
        Activation::GELUTanh => {
            let inner = (2.0 / std::f64::consts::PI).sqrt() * (x + 0.044715 * x * x * x);
            0.5 * x * (1.0 + inner.tanh())
        }
        Activation::ReLU => x.max(0.0),
        Activation::SiLU => x / (1.0 + (-x).exp()),
        Activation::Sigmoid => 1.0 / (1.0 + (-x).exp()),
        Activation::Tanh => x.tanh(),
        Activation::Softplus if x > 20.0 => x,
        Activation::Softplus => x.exp().ln_1p(),
    }
}

/// erf by its Maclaurin series, to f64's precision for |x| up to 5; 1 beyond 6.
fn erf_f64(x: f64) -> f64 {
    if x.abs() > 5.0 {
        return x.signum();
    }
    let (mut term, mut total) = (x, x);
    for n in 1..200 {
        term *= -x * x / f64::from(n);
        total += term / f64::from(2 * n + 1);
    }
    total * 2.0 / std::f64::consts::PI.sqrt()
}

#[test]
fn a_gradient_in_place_is_that_beside_it() {
    for &kind in cases(Activation::ALL, 5) {
        for n in [1, 34, 20_003] {
            let (x, dy) = (normal(7, n), normal(8, n));
            let got = run_everywhere("activation_backward", |device, mem| {
                let (input, dy) = (mem.input(device, &x)?, mem.input(device, &dy)?);
                let (dx, in_place) = (mem.output(device, n)?, mem.output(device, n)?);
                activation_backward(device, kind, &input, &dy, &dx)?;
                device.copy(&input, &in_place)?;
                activation_backward_in_place(device, kind, &in_place, &dy)?;
                Ok(vec![dx, in_place])
            });
            let [dx, in_place] = [&got[0], &got[1]]
                .map(|values| values.iter().map(|x| x.to_bits()).collect::<Vec<u32>>());
            assert_eq!(dx, in_place, "{kind:?}");
        }
    }
}

#[test]
fn forward_matches_the_reference() {
    for &kind in Activation::ALL {
        for n in [1, 31, 33, 5003] {
            let mut x = normal(6, n);
            x.iter_mut().step_by(3).for_each(|x| *x *= 4.0);
            let got = run_everywhere("activation_forward", |device, mem| {
                let input = mem.input(device, &x)?;
                let y = mem.output(device, n)?;
                activation_forward(device, kind, &input, &y)?;
                Ok(vec![y])
            });
            let want: Vec<f64> = x.iter().map(|x| reference(kind, (*x).into())).collect();
            assert_close(&format!("{kind:?}"), &got[0], &want, 2e-6, 1e-6);
        }
    }
}

#[test]
fn backward_matches_finite_differences() {
    for &kind in cases(Activation::ALL, 5) {
        for n in [1, 31, 33, 5003] {
            let (x, dy) = (normal(7, n), normal(8, n));
            let got = run_everywhere("activation_backward", |device, mem| {
                let (input, upstream) = (mem.input(device, &x)?, mem.input(device, &dy)?);
                let dx = mem.output(device, n)?;
                activation_backward(device, kind, &input, &upstream, &dx)?;
                Ok(vec![dx])
            });
            let want: Vec<f64> = x
                .iter()
                .zip(&dy)
                .map(|(x, dy)| f64::from(*dy) * slope(kind, (*x).into()))
                .collect();
            assert_close(&format!("{kind:?}"), &got[0], &want, 1e-5, 2e-6);
        }
    }
}

/// Large, tiny and special values: equal bits everywhere, and no NaN from a finite input.
#[test]
fn edges_are_finite_and_equal_everywhere() {
    let mut x = values(9, 2000);
    x.extend([
        f32::MAX,
        f32::MIN,
        f32::MIN_POSITIVE,
        16.0,
        -16.0,
        88.8,
        -88.8,
        0.0,
        -0.0,
    ]);
    let n = x.len();
    for &kind in cases(Activation::ALL, 3) {
        let got = run_everywhere("activation", |device, mem| {
            let input = mem.input(device, &x)?;
            let upstream = mem.input(device, &vec![1.5; n])?;
            let (y, dx) = (mem.output(device, n)?, mem.output(device, n)?);
            activation_forward(device, kind, &input, &y)?;
            activation_backward(device, kind, &input, &upstream, &dx)?;
            Ok(vec![y, dx])
        });
        for (i, input) in x.iter().enumerate().filter(|(_, x)| x.is_finite()) {
            assert!(got[0][i].is_finite(), "{kind:?}({input}) = {}", got[0][i]);
            assert!(got[1][i].is_finite(), "{kind:?}'({input}) = {}", got[1][i]);
        }
    }
}

#[test]
fn relu_has_the_written_rule_for_zeros_and_nan() {
    let x = [
        0.0,
        -0.0,
        f32::NAN,
        -f32::NAN,
        f32::INFINITY,
        f32::NEG_INFINITY,
        2.0,
        -2.0,
    ];
    let got = run_everywhere("relu", |device, mem| {
        let input = mem.input(device, &x)?;
        let upstream = mem.input(device, &[3.0; 8])?;
        let (y, dx) = (mem.output(device, 8)?, mem.output(device, 8)?);
        activation_forward(device, Activation::ReLU, &input, &y)?;
        activation_backward(device, Activation::ReLU, &input, &upstream, &dx)?;
        Ok(vec![y, dx])
    });
    let y: Vec<u32> = got[0].iter().map(|y| y.to_bits()).collect();
    assert_eq!([y[0], y[1], y[5], y[7]], [0; 4]);
    assert!(got[0][2].is_nan() && got[0][3].is_nan());
    assert_eq!([got[0][4], got[0][6]], [f32::INFINITY, 2.0]);
    assert_eq!(got[1], [0.0, 0.0, 3.0, 3.0, 3.0, 0.0, 3.0, 0.0]);
}

/// To the left `1 + exp(x)` would round to 1: the result keeps its leading digits.
#[test]
fn softplus_is_accurate_where_the_exponential_is_small_and_linear_above_20() {
    let x = [-80.0, -40.0, -17.5, -1.0, 0.0, 1.0, 19.9, 20.0, 20.5, 1e30];
    let got = run_everywhere("softplus", |device, mem| {
        let input = mem.input(device, &x)?;
        let upstream = mem.input(device, &[2.0; 10])?;
        let (y, dx) = (mem.output(device, 10)?, mem.output(device, 10)?);
        activation_forward(device, Activation::Softplus, &input, &y)?;
        activation_backward(device, Activation::Softplus, &input, &upstream, &dx)?;
        Ok(vec![y, dx])
    });
    let y: Vec<f64> = x
        .iter()
        .map(|&x| reference(Activation::Softplus, x.into()))
        .collect();
    let slopes = x.iter().map(|&x| 2.0 / (1.0 + (-f64::from(x)).exp()));
    assert_close("softplus", &got[0], &y, 4e-7, 0.0);
    assert_close(
        "softplus's slope",
        &got[1],
        &slopes.collect::<Vec<_>>(),
        4e-7,
        0.0,
    );
    assert_eq!(got[0][8..], [20.5, 1e30]);
    assert_eq!(got[1][8..], [2.0, 2.0]);
}

#[test]
fn names_are_read_back_and_unknown_ones_refused() {
    for (id, &kind) in Activation::ALL.iter().enumerate() {
        assert_eq!(kind.to_string().parse::<Activation>().ok(), Some(kind));
        assert_eq!(kind as usize, id);
    }
    let text = "swish"
        .parse::<Activation>()
        .expect_err("unknown")
        .to_string();
    assert_eq!(
        text,
        "activation: kind is `swish`, expected one of gelu, gelu_tanh, relu, silu, sigmoid, \
         tanh, softplus"
    );
}
