//! The specification number by number, as docs/numerics.md has it: what faster ways are compared with.

use hlx_core::arith;

use crate::product::quantised::specification::{Digits, NO_EXPONENT, row_exponent};

/// `x 2^e` to the nearest integer, ties to even, for a magnitude of at most the row's.
pub fn quantised(x: f32, e: i32) -> i32 {
    /// Added to a number below 2^22, it rounds where the unit is 1.
    const UNIT: f32 = 12_582_912.0;
    let bits = x.to_bits();
    let exponent = ((bits >> 23) & 255) as i32 + e;
    if bits & 0x7f80_0000 == 0 || exponent <= 0 {
        return 0;
    }
    let scaled = f32::from_bits((bits & 0x807f_ffff) | (exponent as u32) << 23);
    arith::add(scaled, UNIT).to_bits() as i32 - UNIT.to_bits() as i32
}

/// The digits of an integer of 16 bits: `q = 256 high + low`.
pub fn digits(q: i32) -> [i8; 2] {
    [((q + 128) >> 8) as i8, q as i8]
}

/// The whole sum `256 high + low`, ties to even: of its upper 16 bits and the 24 below, which are exact.
pub fn float_of_sums([high, low]: [i32; 2]) -> f32 {
    let upper = high + (low >> 8);
    let rest = (upper & 0xffff) << 8 | (low & 0xff);
    arith::fma((upper >> 16) as f32, 16_777_216.0, rest as f32)
}

/// `v 2^-e`, where v is no subnormal, NaN or infinity: what is tiny becomes +0, what is large an infinity.
pub fn scaled_down(v: f32, e: i32) -> f32 {
    let bits = v.to_bits();
    let exponent = ((bits >> 23) & 255) as i32 - e;
    if bits & 0x7f80_0000 == 0 || exponent <= 0 {
        return 0.0;
    }
    let exponent = exponent as u32;
    if exponent >= 255 {
        return f32::INFINITY.copysign(v);
    }
    f32::from_bits((bits & 0x807f_ffff) | exponent << 23)
}

/// An element of a product from its exact sums and the exponents of its row and column.
pub fn result(sums: [i32; 2], [of_a, of_b]: [i32; 2]) -> f32 {
    if of_a == NO_EXPONENT || of_b == NO_EXPONENT {
        return f32::from_bits(0x7fc0_0000);
    }
    arith::pos0(scaled_down(float_of_sums(sums), of_a + of_b))
}

/// The largest |integer| of a row whose largest magnitude is `top`, in f64.
fn scaled(top: f32, e: i32) -> f64 {
    f64::from(top) * 2.0_f64.powi(e)
}

#[test]
fn the_largest_number_of_a_row_uses_the_digits_and_stays_within_them() {
    let significands = [
        0x0080_0000_u32,
        0x0080_0001,
        0x00fe_feff,
        0x00fe_ff00,
        0x00fe_ffff,
        0x00ff_0000,
        0x00ff_ffff,
        0x00c0_0000,
    ];
    for n_digits in [Digits::Two, Digits::One] {
        for significand in significands {
            for exponent in [1_u32, 2, 60, 127, 140, 200, 254] {
                let top = exponent << 23 | (significand & 0x007f_ffff);
                let x = f32::from_bits(top);
                let e = row_exponent(top, n_digits);
                let q = quantised(x, e);
                assert_eq!(
                    f64::from(q),
                    scaled(x, e).round_ties_even(),
                    "{n_digits:?} {x:e}"
                );
                assert_eq!(quantised(-x, e), -q);
                // Within the digits, and with one bit more it would not be.
                assert!(q <= n_digits.largest(), "{n_digits:?} {x:e}: {q}");
                let twice = scaled(x, e + 1).round_ties_even();
                assert!(
                    twice > f64::from(n_digits.largest()),
                    "{n_digits:?} {x:e}: {twice}"
                );
            }
        }
    }
}

#[test]
fn numbers_round_to_the_nearest_integer_and_ties_to_even() {
    for e in [-100, -3, 0, 5, 90] {
        for i in 0..8_000 {
            let y = (f64::from(i) - 4_000.0) / 8.0;
            let x = (y * 2.0_f64.powi(-e)) as f32;
            assert_eq!(f64::from(quantised(x, e)), y.round_ties_even(), "{y} {e}");
        }
    }
    for x in [0.0, -0.0, f32::from_bits(1), f32::from_bits(0x807f_ffff)] {
        assert_eq!(quantised(x, 140), 0);
    }
    assert_eq!(quantised(f32::MIN_POSITIVE, -113), 0);
}

#[test]
fn digits_hold_every_integer() {
    for q in -32_639..=32_639 {
        let [high, low] = digits(q).map(i32::from);
        assert_eq!(256 * high + low, q);
        assert!((-127..=127).contains(&high), "{q}");
    }
}

#[test]
fn every_sum_becomes_the_nearest_float() {
    let largest = [127 * 127 * 131_072, 128 * 127 * 131_072 - 1];
    for base in [0_i32, 1 << 16, 1 << 20, 1 << 24, 1 << 30, largest[0]] {
        for (step, other) in [(1, 0), (7, largest[1]), (7, -largest[1]), (1, 1 << 24)] {
            for near in (-33_000..=0).step_by(step) {
                for sums in [
                    [base + near, other],
                    [-base - near, other],
                    [near, base + near],
                ] {
                    let exact = i64::from(sums[0]) * 256 + i64::from(sums[1]);
                    let found = float_of_sums(sums);
                    assert_eq!(found.to_bits(), (exact as f32).to_bits(), "{sums:?}");
                }
            }
        }
    }
}

#[test]
fn all_products_of_two_integers_are_exact() {
    for a in -32_639..=32_639 {
        let [high, low] = digits(a).map(i32::from);
        for b in -127..=127 {
            assert_eq!(result([high * b, low * b], [0, 0]), (a * b) as f32);
        }
    }
}

#[test]
fn results_out_of_range_are_zeros_and_infinities() {
    assert_eq!(result([1, 0], [127, 127]).to_bits(), 0);
    assert_eq!(result([-1, 0], [127, 127]).to_bits(), 0);
    assert_eq!(result([0, 0], [-100, -100]).to_bits(), 0);
    assert_eq!(result([-1, 0], [-100, -100]), f32::NEG_INFINITY);
    // 256 2^-134 is the smallest normal number.
    assert_eq!(result([1, 0], [134, 0]), f32::MIN_POSITIVE);
    assert_eq!(result([1, 0], [135, 0]).to_bits(), 0);
    assert_eq!(result([1, 0], [-119, 0]), 2.0_f32.powi(127));
    assert_eq!(result([1, 0], [-120, 0]), f32::INFINITY);
    for exponents in [[NO_EXPONENT, 0], [0, NO_EXPONENT], [NO_EXPONENT; 2]] {
        assert!(result([0, 0], exponents).is_nan());
    }
}
