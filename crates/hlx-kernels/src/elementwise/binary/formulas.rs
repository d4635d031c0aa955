//! The formulas of the binary operations in Rust, as in `shaders/include/binary`.

// Every formula of f32 has the same signature, also where it needs no arithmetic.
#![allow(clippy::extra_unused_type_parameters)]

use hlx_core::arith::{FloatOps, INFINITY, MAGNITUDE, MIN_NORMAL, SIGN, add, div, max, sub};

use super::super::family::formulas;
use super::super::rounding::floor;

formulas! {
    add_f32<A>(a, b: f32) -> f32 { add(a, b) }
    add_int(a, b: u32) -> u32 { a.wrapping_add(b) }
    sub_f32<A>(a, b: f32) -> f32 { sub(a, b) }
    sub_int(a, b: u32) -> u32 { a.wrapping_sub(b) }
    mul_f32<A>(a, b: f32) -> f32 { A::mul(a, b) }
    mul_int(a, b: u32) -> u32 { a.wrapping_mul(b) }
    maximum_f32<A>(a, b: f32) -> f32 { max(a, b) }
    maximum_i32(a, b: i32) -> i32 { a.max(b) }
    maximum_u32(a, b: u32) -> u32 { a.max(b) }
    minimum_f32<A>(a, b: f32) -> f32 { if a < b || a.is_nan() { a } else { b } }
    minimum_i32(a, b: i32) -> i32 { a.min(b) }
    minimum_u32(a, b: u32) -> u32 { a.min(b) }
    eq_f32<A>(a, b: f32) -> bool { a == b }
    eq_int(a, b: u32) -> bool { a == b }
    ne_f32<A>(a, b: f32) -> bool { a != b }
    ne_int(a, b: u32) -> bool { a != b }
    lt_f32<A>(a, b: f32) -> bool { a < b }
    lt_i32(a, b: i32) -> bool { a < b }
    lt_u32(a, b: u32) -> bool { a < b }
    le_f32<A>(a, b: f32) -> bool { a <= b }
    le_i32(a, b: i32) -> bool { a <= b }
    le_u32(a, b: u32) -> bool { a <= b }
    gt_f32<A>(a, b: f32) -> bool { a > b }
    gt_i32(a, b: i32) -> bool { a > b }
    gt_u32(a, b: u32) -> bool { a > b }
    ge_f32<A>(a, b: f32) -> bool { a >= b }
    ge_i32(a, b: i32) -> bool { a >= b }
    ge_u32(a, b: u32) -> bool { a >= b }
    logical_and_f32<A>(a, b: f32) -> bool { a != 0.0 && b != 0.0 }
    logical_and_int(a, b: u32) -> bool { a != 0 && b != 0 }
    logical_or_f32<A>(a, b: f32) -> bool { a != 0.0 || b != 0.0 }
    logical_or_int(a, b: u32) -> bool { a != 0 || b != 0 }
    logical_xor_f32<A>(a, b: f32) -> bool { (a != 0.0) != (b != 0.0) }
    logical_xor_int(a, b: u32) -> bool { (a != 0) != (b != 0) }
    bitwise_and_int(a, b: u32) -> u32 { a & b }
    bitwise_or_int(a, b: u32) -> u32 { a | b }
    bitwise_xor_int(a, b: u32) -> u32 { a ^ b }
    left_shift_int(a, b: u32) -> u32 { if b < 32 { a << b } else { 0 } }
    right_shift_i32(a, b: i32) -> i32 { a >> (b as u32).min(31) }
    right_shift_u32(a, b: u32) -> u32 { if b < 32 { a >> b } else { 0 } }
    div_f32<A>(a, b: f32) -> f32 { div(a, b) }
    div_i32(a, b: i32) -> i32 { if b == 0 { 0 } else { a.wrapping_div(b) } }
    div_u32(a, b: u32) -> u32 { a.checked_div(b).unwrap_or(0) }
    remainder_u32(a, b: u32) -> u32 { a.checked_rem(b).unwrap_or(0) }
    floor_divide_u32(a, b: u32) -> u32 { div_u32(a, b) }
    pow_f32<A>(a, b: f32) -> f32 { A::pow(a, b) }
    pow_u32(a, b: u32) -> u32 { a.wrapping_pow(b) }
    atan2_f32<A>(a, b: f32) -> f32 { A::atan2(a, b) }
}

#[inline(always)]
pub(super) fn remainder_i32(a: i32, b: i32) -> i32 {
    if b == 0 {
        return 0;
    }
    let rest = a.wrapping_rem(b);
    if rest != 0 && (rest ^ b) < 0 {
        rest + b
    } else {
        rest
    }
}

#[inline(always)]
pub(super) fn floor_divide_i32(a: i32, b: i32) -> i32 {
    let quotient = div_i32(a, b);
    let down = b != 0 && (a ^ b) < 0 && quotient.wrapping_mul(b) != a;
    if down { quotient - 1 } else { quotient }
}

/// An exponent below 0 gives 1 / a^-b without its fraction, and 0 of 0.
#[inline(always)]
pub(super) fn pow_i32(a: i32, b: i32) -> i32 {
    match (a, b) {
        (_, 0..) => a.wrapping_pow(b as u32),
        (1, _) => 1,
        (-1, _) if b & 1 == 0 => 1,
        (-1, _) => -1,
        _ => 0,
    }
}

/// `a - b trunc(a / b)`, exactly and with a's sign: the significand of a, moved up by the difference
/// of the exponents eight bits at a time, modulo that of b. What would be subnormal is zero.
#[inline(always)]
fn remainder_toward_zero(a: f32, b: f32) -> f32 {
    let sign = a.to_bits() & SIGN;
    let (x, y) = (a.to_bits() & MAGNITUDE, b.to_bits() & MAGNITUDE);
    if x >= INFINITY || !(MIN_NORMAL..=INFINITY).contains(&y) {
        return f32::NAN;
    }
    if x < y {
        return a;
    }
    let significand = |bits: u32| (bits & 0x007f_ffff) | MIN_NORMAL;
    let divisor = significand(y);
    let mut rest = significand(x) % divisor;
    let mut shift = (x >> 23) - (y >> 23);
    while shift > 0 && rest != 0 {
        let step = shift.min(8);
        rest = (rest << step) % divisor;
        shift -= step;
    }
    let top = 31 - (rest | 1).leading_zeros();
    let exponent = (y >> 23) + top;
    if rest == 0 || exponent <= 23 {
        return f32::from_bits(sign);
    }
    f32::from_bits(sign | (exponent - 23) << 23 | (rest << (23 - top)) & 0x007f_ffff)
}

#[inline(always)]
fn crosses_zero(rest: f32, b: f32) -> bool {
    rest.to_bits() & MAGNITUDE != 0 && (rest.to_bits() ^ b.to_bits()) & SIGN != 0
}

#[inline(always)]
pub(super) fn remainder_f32<A: FloatOps>(a: f32, b: f32) -> f32 {
    let rest = remainder_toward_zero(a, b);
    if crosses_zero(rest, b) {
        add(rest, b)
    } else {
        rest
    }
}

/// The quotient of what the remainder leaves, one less where that has the other sign, rounded
/// to the whole number that it is next to.
#[inline(always)]
pub(super) fn floor_divide_f32<A: FloatOps>(a: f32, b: f32) -> f32 {
    if b.to_bits() & MAGNITUDE == 0 {
        return div(a, b);
    }
    let rest = remainder_toward_zero(a, b);
    let quotient = div(sub(a, rest), b);
    let quotient = if crosses_zero(rest, b) {
        sub(quotient, 1.0)
    } else {
        quotient
    };
    let whole = floor(quotient);
    let whole = if sub(quotient, whole) > 0.5 {
        add(whole, 1.0)
    } else {
        whole
    };
    if quotient.to_bits() & MAGNITUDE == 0 {
        return f32::from_bits((a.to_bits() ^ b.to_bits()) & SIGN);
    }
    whole
}
