//! Random elements: their blocks, their distributions, and what is refused.

use hlx_core::arith::philox4x32;

use super::*;
use crate::draw::draw_normal;
use crate::testing::{elements_of, run_everywhere};

const DRAW: Draw = Draw {
    seed: 0x0000_0009_0000_0007,
    stream: 0,
    purpose: 0x8000_0003,
};

fn drawn(distribution: Distribution, dtype: DType, n: usize) -> Vec<f32> {
    let got = run_everywhere("fill_random", |device, mem| {
        let out = mem.output_of(device, dtype, n)?;
        fill_random(device, distribution, DRAW, &out)?;
        Ok(vec![out])
    });
    got.into_iter().next().unwrap_or_default()
}

#[test]
fn normal_elements_are_those_of_initial_weights() {
    let normal = Distribution::Normal {
        mean: 0.0,
        deviation: 0.02,
    };
    let mut expected = vec![0.0; 5003];
    hlx_core::cpu::with_flush(|| draw_normal([7, 9], 0x8000_0003, 0.02, 0, &mut expected));
    assert_eq!(drawn(normal, DType::F32, 5003), expected);
}

#[test]
fn uniform_elements_fill_their_range_evenly() {
    let uniform = Distribution::Uniform {
        low: -1.0,
        high: 3.0,
    };
    let x = drawn(uniform, DType::F32, 20_001);
    assert!(x.iter().all(|x| (-1.0..3.0).contains(x)));
    let mean = x.iter().map(|x| f64::from(*x)).sum::<f64>() / x.len() as f64;
    assert!((mean - 1.0).abs() < 0.05, "mean {mean}");
    let low = x.iter().filter(|x| **x < 0.0).count() as f64 / x.len() as f64;
    assert!((low - 0.25).abs() < 0.02, "{low} in the first quarter");
}

#[test]
fn integers_take_every_value_of_their_range() {
    let dice = Distribution::Integers { low: -3, high: 3 };
    let x = elements_of::<i8>(&drawn(dice, DType::I8, 6001), 6001);
    for value in -3..3 {
        let share = x.iter().filter(|x| **x == value).count();
        assert!((850..1150).contains(&share), "{value}: {share} of 6001");
    }
    assert!(x.iter().all(|x| (-3..3).contains(x)));
    let wide = Distribution::Integers {
        low: 0,
        high: 1 << 32,
    };
    let x = elements_of::<u32>(&drawn(wide, DType::U32, 4), 4);
    assert_eq!(x, philox4x32([0, 0, 0, DRAW.purpose], [7, 9]));
}

#[test]
fn truth_values_have_their_probability() {
    for (p, share) in [(0.0, 0..1), (0.3, 2800..3200), (1.0, 10_000..10_001)] {
        let x = drawn(Distribution::Bernoulli { p }, DType::Bool, 10_000);
        let ones = elements_of::<u8>(&x, 10_000)
            .iter()
            .filter(|x| **x == 1)
            .count();
        assert!(share.contains(&ones), "p {p}: {ones} of 10,000");
    }
}

#[test]
fn distributions_without_values_are_refused_in_one_line() {
    let device = hlx_core::testing::cpu().expect("the CPU device");
    let out = device.alloc(4).expect("memory");
    let message = |distribution| {
        let result = fill_random(&device, distribution, DRAW, &out);
        result.expect_err("refused").to_string()
    };
    assert_eq!(
        message(Distribution::Integers { low: 4, high: 4 }),
        "fill_random: range is 4..4, expected one of 32-bit values"
    );
    assert_eq!(
        message(Distribution::Bernoulli { p: 1.5 }),
        "fill_random: p is 1.5, expected a probability from 0 to 1"
    );
    assert_eq!(
        message(Distribution::Integers { low: 0, high: 4 }),
        "fill_random: out is f32, expected an integer type or bool for integers"
    );
}
