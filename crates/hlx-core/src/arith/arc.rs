//! asin, acos, atan and atan2.

use super::constants::*;
use super::{FloatOps, SIGN, abs, copysign, flush, odd, sqrt};

/// `s` and `asin(s) - s`, where `s` is `|x|` up to 1/2 and `sqrt((1 - |x|) / 2)` beyond.
#[inline(always)]
fn asin_parts<A: FloatOps>(size: f32) -> (f32, f32) {
    let near = size <= 0.5;
    let z = if near {
        A::mul(size, size)
    } else {
        A::fma(-0.5, size, 0.5)
    };
    let s = if near { size } else { sqrt(z) };
    let p = horner!(A, z, ASIN_4, ASIN_3, ASIN_2, ASIN_1, ASIN_0);
    (s, A::mul(A::mul(s, z), p))
}

/// The arc sine; NaN beyond 1, keeps the sign of a zero.
///
/// Beyond 1/2 it is `pi/2 - 2 asin(sqrt((1 - |x|) / 2))`.
#[inline(always)]
pub(super) fn asin<A: FloatOps>(x: f32) -> f32 {
    let size = abs(x);
    let (s, rest) = asin_parts::<A>(size);
    let near = s + rest;
    let high = PIO2_0 - 2.0 * s;
    let low = (PIO2_0 - high) - 2.0 * s;
    let far = high + (low - A::fma(2.0, rest, -PIO2_1));
    let y = if size <= 0.5 { near } else { far };
    let y = flush(copysign(y, x));
    if size <= 1.0 { y } else { f32::NAN }
}

/// The arc cosine; NaN beyond 1.
///
/// Up to 1/2 it is `pi/2 - asin(x)`, beyond `2 asin(sqrt((1 - |x|) / 2))`, taken from pi for a
/// negative `x`.
#[inline(always)]
pub(super) fn acos<A: FloatOps>(x: f32) -> f32 {
    let size = abs(x);
    let (s, rest) = asin_parts::<A>(size);
    let negative = x < 0.0;
    let (s, rest) = (copysign(s, x), copysign(rest, x));
    let near = PIO2_0 - (s + (rest - PIO2_1));
    let far = 2.0 * (s + rest);
    let far = if negative { PI_0 + (far + PI_1) } else { far };
    let y = if size <= 0.5 { near } else { far };
    if size <= 1.0 { y } else { f32::NAN }
}

/// `base + sign * atan(t)` for `t` in `[0, 1]`, `sign` of 1 or -1 and a base of two parts, 0 or
/// at least pi/2.
#[inline(always)]
fn atan_core<A: FloatOps>(t: f32, sign: f32, base: (f32, f32)) -> f32 {
    let z = A::mul(t, t);
    let p = horner!(
        A, z, ATAN_8, ATAN_7, ATAN_6, ATAN_5, ATAN_4, ATAN_3, ATAN_2, ATAN_1, ATAN_0
    );
    let t = A::mul(sign, t);
    base.0 + (t + A::fma(A::mul(t, z), p, base.1))
}

/// The arc tangent; keeps the sign of a zero.
///
/// Beyond 1 it is `pi/2 - atan(1 / |x|)`.
#[inline(always)]
pub(super) fn atan<A: FloatOps>(x: f32) -> f32 {
    let size = abs(x);
    let steep = size > 1.0;
    let t = if steep { 1.0 / size } else { size };
    let base = if steep { (PIO2_0, PIO2_1) } else { (0.0, 0.0) };
    let y = atan_core::<A>(t, if steep { -1.0 } else { 1.0 }, base);
    flush(odd(y, x))
}

/// The angle of the point `(x, y)`, with the special values of C's `atan2f`.
#[inline(always)]
pub(super) fn atan2<A: FloatOps>(y: f32, x: f32) -> f32 {
    let (y, x) = (flush(y), flush(x));
    let (height, width) = (abs(y), abs(x));
    let steep = height > width;
    let (small, large) = if steep {
        (width, height)
    } else {
        (height, width)
    };
    let t = small / large;
    let t = if large == 0.0 { 0.0 } else { t };
    let t = if small == f32::INFINITY { 1.0 } else { t };
    let left = x.to_bits() & SIGN != 0;
    let sign = if steep != left { -1.0 } else { 1.0 };
    let base = if left { (PI_0, PI_1) } else { (0.0, 0.0) };
    let base = if steep { (PIO2_0, PIO2_1) } else { base };
    let angle = copysign(atan_core::<A>(t, sign, base), y);
    if x.is_nan() || y.is_nan() {
        f32::NAN
    } else {
        angle
    }
}
