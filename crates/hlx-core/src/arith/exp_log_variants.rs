//! exp2, expm1, log2, log10 and log1p.

use super::constants::*;
use super::exp_log::{exp_reduce, expm1_core, log_series, log_special, log_split};
use super::{FloatOps, abs, flush};

/// `2^r` for `|r| <= 1/2`.
#[inline(always)]
pub(super) fn exp2_core<A: FloatOps>(r: f32) -> f32 {
    let p = horner!(A, r, EXP2_5, EXP2_4, EXP2_3, EXP2_2, EXP2_1, EXP2_0);
    A::fma(p, r, 1.0)
}

/// `2^x`; infinite from 128 on, +0 below -126. Exact for a whole `x`.
#[inline(always)]
pub(super) fn exp2<A: FloatOps>(x: f32) -> f32 {
    let shifted = x + ROUND_MAGIC;
    let n = shifted.to_bits().wrapping_sub(ROUND_MAGIC.to_bits());
    let y = exp2_core::<A>(x - (shifted - ROUND_MAGIC));
    let y = f32::from_bits(y.to_bits().wrapping_add(n << 23));
    let y = if x >= 128.0 { f32::INFINITY } else { y };
    let y = if x < -126.0 { 0.0 } else { y };
    if x.is_nan() { x } else { y }
}

/// `exp(x) - 1`; infinite above 88.72283, keeps the sign of a zero.
///
/// `exp(x) - 1 = 2^n (exp(r) - 1) + (2^n - 1)`, all of it halved, since 2^128 is not a float.
#[inline(always)]
pub(super) fn expm1<A: FloatOps>(x: f32) -> f32 {
    let (r, n) = exp_reduce::<A>(if x < EXPM1_LOW { EXPM1_LOW } else { x });
    let half_scale = f32::from_bits(n.wrapping_add(126) << 23);
    let y = 2.0 * A::fma(half_scale, expm1_core::<A>(r), half_scale - 0.5);
    let y = if x > EXP_HIGH { f32::INFINITY } else { y };
    let y = if abs(x) < EXPM1_TINY { flush(x) } else { y };
    if x.is_nan() { x } else { y }
}

/// The logarithm to base 2; -inf at both zeros, NaN below zero. Exact for a power of two.
#[inline(always)]
pub(super) fn log2<A: FloatOps>(x: f32) -> f32 {
    let (exponent, m) = log_split(x.to_bits());
    let (e, f) = (exponent as f32, m - 1.0);
    let w = log_tail::<A>(f);
    let w = A::fma(w, LOG2E, A::mul(f, LOG2E_1));
    log_special(x, e + A::fma(f, LOG2E, w))
}

/// The logarithm to base 10; -inf at both zeros, NaN below zero.
#[inline(always)]
pub(super) fn log10<A: FloatOps>(x: f32) -> f32 {
    let (exponent, m) = log_split(x.to_bits());
    let (e, f) = (exponent as f32, m - 1.0);
    let w = log_tail::<A>(f);
    let w = A::fma(w, LOG10E_0, A::fma(f, LOG10E_1, A::mul(e, LOG10_2_1)));
    log_special(x, A::fma(e, LOG10_2_0, A::fma(f, LOG10E_0, w)))
}

/// `log(1 + f) - f` for `1 + f` in `[sqrt(1/2), sqrt(2))`.
#[inline(always)]
fn log_tail<A: FloatOps>(f: f32) -> f32 {
    let square = A::mul(f, f);
    A::fma(-0.5, square, A::mul(A::mul(square, f), log_series::<A>(f)))
}

/// `log(1 + x)`; -inf at -1, NaN below, keeps the sign of a zero.
///
/// The exponent `e` is that of the rounded `1 + x`; `2^-e (1 + x) - 1` is rounded once from `x`.
#[inline(always)]
pub(super) fn log1p<A: FloatOps>(x: f32) -> f32 {
    let u = 1.0 + x;
    let (exponent, m) = log_split(u.to_bits());
    let e = exponent as f32;
    let scale = f32::from_bits((127_i32.wrapping_sub(exponent) as u32) << 23);
    let f = A::fma(scale, x, scale - 1.0);
    // 2^-e may be no normal number, and 1 + x is x.
    let f = if x > LOG1P_HIGH { m - 1.0 } else { f };
    let square = A::mul(f, f);
    let w = A::fma(A::mul(square, f), log_series::<A>(f), A::mul(e, LN2_1));
    let w = A::fma(-0.5, square, w);
    let y = log_special(u, A::fma(e, LN2_0, f + w));
    if abs(x) < EXPM1_TINY { flush(x) } else { y }
}
