//! tan.

use super::constants::*;
use super::sin_cos::{angle_reduce_pair, reduce_pair};
use super::{FloatOps, INFINITY, MAGNITUDE, abs, flush};

/// The tangent; NaN for infinities, keeps the sign of a zero.
///
/// `x = n pi/2 + r`; `tan(r) = r + r^3 T(r^2)`, and `-1 / tan(r)` for an odd `n`, from the
/// reciprocal of the rounded `tan(r)` and what its rounding lost.
#[inline(always)]
pub(super) fn tan<A: FloatOps>(x: f32) -> f32 {
    tan_of::<A>(x, reduce_pair::<A>(x))
}

/// [`tan`] for an angle up to 2^17, infinity or NaN.
#[inline(always)]
pub(super) fn tan_within<A: FloatOps>(x: f32) -> f32 {
    tan_of::<A>(x, angle_reduce_pair::<A>(x))
}

/// The tangent of `x = n pi/2 + r + low`.
#[inline(always)]
fn tan_of<A: FloatOps>(x: f32, (r, low, n): (f32, f32, u32)) -> f32 {
    let z = A::mul(r, r);
    let p = horner!(A, z, TAN_6, TAN_5, TAN_4, TAN_3, TAN_2, TAN_1, TAN_0);
    let cube = A::mul(z, r);
    let t = A::fma(cube, p, r);
    let t_low = A::fma(cube, p, r - t);
    let t_low = A::fma(low, A::fma(t, t, 1.0), t_low);
    // Near a multiple of pi/2 t_low is no small part of t.
    let high = t + t_low;
    let low = t_low - (high - t);
    let q = 1.0 / high;
    let error = A::fma(-q, low, A::fma(-q, high, 1.0));
    let cotangent = A::fma(q, error, q);
    let y = if n & 1 == 0 { high } else { -cotangent };
    let y = if abs(x) < TINY_ANGLE { flush(x) } else { y };
    if x.to_bits() & MAGNITUDE >= INFINITY {
        f32::NAN
    } else {
        y
    }
}
