//! sinh and cosh.

use super::constants::*;
use super::exp_log::{exp_reduce, expm1_core};
use super::{FloatOps, abs, flush, odd};

/// `exp(size) / 2`, and two factors of `exp(-size) / 2`, of which the first is a power of two.
#[inline(always)]
fn half_exps<A: FloatOps>(size: f32) -> (f32, f32, f32) {
    let (r, n) = exp_reduce::<A>(size);
    let grown = 1.0 + expm1_core::<A>(r);
    let shrunk = 1.0 + expm1_core::<A>(-r);
    let half_grown = f32::from_bits(grown.to_bits().wrapping_add(n.wrapping_sub(1) << 23));
    // Beyond 2^-65 the second exponential is lost in the first.
    let places = if n > 64 { 64 } else { n };
    let scale = f32::from_bits(126_u32.wrapping_sub(places) << 23);
    (half_grown, scale, shrunk)
}

/// The hyperbolic sine; infinite beyond 89.415985, keeps the sign of a zero.
///
/// Up to 1 a series, `(exp(|x|) - exp(-|x|)) / 2` beyond.
#[inline(always)]
pub(super) fn sinh<A: FloatOps>(x: f32) -> f32 {
    let size = abs(x);
    let z = A::mul(size, size);
    let p = horner!(A, z, SINH_3, SINH_2, SINH_1, SINH_0);
    let near = A::fma(A::mul(size, z), p, size);
    let (half_grown, scale, shrunk) = half_exps::<A>(size);
    let far = A::fma(-scale, shrunk, half_grown);
    let y = if size < 1.0 { near } else { far };
    let y = if size > COSH_HIGH { f32::INFINITY } else { y };
    flush(odd(y, x))
}

/// The hyperbolic cosine; infinite beyond 89.415985.
#[inline(always)]
pub(super) fn cosh<A: FloatOps>(x: f32) -> f32 {
    let size = abs(x);
    let (half_grown, scale, shrunk) = half_exps::<A>(size);
    let y = A::fma(scale, shrunk, half_grown);
    let y = if size > COSH_HIGH { f32::INFINITY } else { y };
    if x.is_nan() { x } else { y }
}
