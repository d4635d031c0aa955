//! exp, sigmoid and log.

use super::constants::*;
use super::{FloatOps, INFINITY, MAGNITUDE, MIN_NORMAL, SIGN};

/// `exp(r) - 1` for `|r| <= ln(2)/2`.
#[inline(always)]
pub(super) fn expm1_core<A: FloatOps>(r: f32) -> f32 {
    let p = horner!(A, r, EXP_4, EXP_3, EXP_2, EXP_1, EXP_0);
    A::fma(A::mul(r, r), p, r)
}

/// `x = n ln 2 + r` for `|x| <= 2^20`: `(r, n)`, `n` as a wrapped integer.
#[inline(always)]
pub(super) fn exp_reduce<A: FloatOps>(x: f32) -> (f32, u32) {
    let shifted = A::fma(x, LOG2E, ROUND_MAGIC);
    let n = shifted.to_bits().wrapping_sub(ROUND_MAGIC.to_bits());
    let whole = shifted - ROUND_MAGIC;
    let r = A::fma(whole, -LN2_0, x);
    (A::fma(whole, -LN2_1, r), n)
}

/// `exp(x)` for `EXP_LOW <= x <= EXP_HIGH`.
#[inline(always)]
pub(super) fn exp_core<A: FloatOps>(x: f32) -> f32 {
    let (r, n) = exp_reduce::<A>(x);
    let y = 1.0 + expm1_core::<A>(r);
    f32::from_bits(y.to_bits().wrapping_add(n << 23))
}

/// `exp(x)`; infinite above 88.72283, +0 below -87.33654.
#[inline(always)]
pub(super) fn exp<A: FloatOps>(x: f32) -> f32 {
    let y = exp_core::<A>(x);
    let y = if x > EXP_HIGH { f32::INFINITY } else { y };
    let y = if x < EXP_LOW { 0.0 } else { y };
    if x.is_nan() { x } else { y }
}

/// `1 / (1 + exp(-x))`, without overflow; +0 below -87.33654.
#[inline(always)]
pub(super) fn sigmoid<A: FloatOps>(x: f32) -> f32 {
    let e = exp::<A>(f32::from_bits(x.to_bits() | SIGN));
    let below = x < 0.0;
    let numerator = if below { e } else { 1.0 };
    let denominator = 1.0 + e;
    let y = numerator / denominator;
    // What the denominator's rounding lost, to first order.
    let lost = e - (denominator - 1.0);
    let reciprocal = if below { 1.0 - y } else { y };
    let y = A::fma(A::mul(y, lost), -reciprocal, y);
    if x.is_nan() { x } else { y }
}

/// `x = 2^e m` with `m` in `[sqrt(1/2), sqrt(2))`, for the bits of a normal `x`: the integer `e`, and `m`.
#[inline(always)]
pub(super) fn log_split(bits: u32) -> (i32, f32) {
    let exponent = bits.wrapping_sub(SQRT_HALF) as i32 >> 23;
    let m = f32::from_bits(bits.wrapping_sub((exponent as u32) << 23));
    (exponent, m)
}

/// `(log(1 + f) - f + f^2/2) / f^3` for `1 + f` in `[sqrt(1/2), sqrt(2))`.
#[inline(always)]
pub(super) fn log_series<A: FloatOps>(f: f32) -> f32 {
    horner!(A, f, LOG_7, LOG_6, LOG_5, LOG_4, LOG_3, LOG_2, LOG_1, LOG_0)
}

/// The natural logarithm; -inf at both zeros, NaN below zero.
#[inline(always)]
pub(super) fn log<A: FloatOps>(x: f32) -> f32 {
    let (exponent, m) = log_split(x.to_bits());
    let (e, f) = (exponent as f32, m - 1.0);
    let p = log_series::<A>(f);
    let square = A::mul(f, f);
    let w = A::fma(A::mul(square, f), p, A::mul(e, LN2_1));
    let w = A::fma(-0.5, square, w);
    let y = A::fma(e, LN2_0, f + w);

    log_special(x, y)
}

/// A logarithm's value `y` of `x`, or what it is of zeros, infinity, NaN and below zero.
#[inline(always)]
pub(super) fn log_special(x: f32, y: f32) -> f32 {
    let bits = x.to_bits();
    let result = if bits >= INFINITY { f32::NAN } else { y };
    let result = if bits == INFINITY { x } else { result };
    if bits & MAGNITUDE < MIN_NORMAL {
        f32::NEG_INFINITY
    } else {
        result
    }
}
