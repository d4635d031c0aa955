//! tan.

use super::sin_cos::reduce_pair;
use super::{
    FloatOps, INFINITY, MAGNITUDE, TAN_0, TAN_1, TAN_2, TAN_3, TAN_4, TAN_5, TAN_6, TINY_ANGLE,
    abs, flush,
};

/// The tangent; NaN for infinities, keeps the sign of a zero. Error at most 2 ulp, for angles of
/// any size.
///
/// `x = n pi/2 + r`; `tan(r) = r + r^3 T(r^2)`, and `-1 / tan(r)` for an odd `n`, from the
/// reciprocal of the rounded `tan(r)` and what its rounding lost.
#[inline(always)]
pub(super) fn tan<A: FloatOps>(x: f32) -> f32 {
    let (r, low, n) = reduce_pair::<A>(x);
    let z = A::mul(r, r);
    let p = A::fma(TAN_6, z, TAN_5);
    let p = A::fma(p, z, TAN_4);
    let p = A::fma(p, z, TAN_3);
    let p = A::fma(p, z, TAN_2);
    let p = A::fma(p, z, TAN_1);
    let p = A::fma(p, z, TAN_0);
    let cube = A::mul(z, r);
    let t = A::fma(cube, p, r);
    let t_low = A::fma(cube, p, r - t);
    let t_low = A::fma(low, A::fma(t, t, 1.0), t_low);
    let q = 1.0 / t;
    let error = A::fma(-q, t_low, A::fma(-q, t, 1.0));
    let cotangent = A::fma(q, error, q);
    let y = if n & 1 == 0 { t + t_low } else { -cotangent };
    let y = if abs(x) < TINY_ANGLE { flush(x) } else { y };
    if x.to_bits() & MAGNITUDE >= INFINITY {
        f32::NAN
    } else {
        y
    }
}
