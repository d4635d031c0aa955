//! sin and cos.

use super::constants::*;
use super::{Exact, FloatOps, INFINITY, MAGNITUDE, MIN_NORMAL, SIGN, abs, flush};

/// `x = n pi/2 + r` for `|x| <= 2^17`, except for the third part of pi/2: `(r, whole, n)`, where
/// `whole` is `n` as a float. The first product is exact under fma.
#[inline(always)]
fn angle_parts<A: FloatOps>(x: f32) -> (f32, f32, u32) {
    let shifted = A::fma(x, TWO_OVER_PI, ROUND_MAGIC);
    let n = shifted.to_bits().wrapping_sub(ROUND_MAGIC.to_bits());
    let whole = shifted - ROUND_MAGIC;
    let r = A::fma(whole, -PIO2_0, x);
    (A::fma(whole, -PIO2_1, r), whole, n)
}

/// `x = n pi/2 + r` for `|x| <= 2^17`: `(r, n)`.
#[inline(always)]
fn angle_reduce<A: FloatOps>(x: f32) -> (f32, u32) {
    let (r, whole, n) = angle_parts::<A>(x);
    (A::fma(whole, -PIO2_2, r), n)
}

/// 32 bits of 2/pi from bit `start` on; bit 32 is the first after the point.
fn two_over_pi_bits(start: u32) -> u32 {
    const WORDS: [u32; 8] = [
        0,
        TWO_OVER_PI_WORD_0,
        TWO_OVER_PI_WORD_1,
        TWO_OVER_PI_WORD_2,
        TWO_OVER_PI_WORD_3,
        TWO_OVER_PI_WORD_4,
        TWO_OVER_PI_WORD_5,
        TWO_OVER_PI_WORD_6,
    ];
    let word_idx = (start >> 5) as usize;
    let pair = u64::from(WORDS[word_idx]) << 32 | u64::from(WORDS[word_idx + 1]);
    (pair << (start & 31) >> 32) as u32
}

/// The same for `|x| > 2^17` in integers (Payne and Hanek 1983). Of `x * 2/pi` modulo 4 the upper
/// 64 bits are used, two of them before the point. Compiled once, for any processor.
#[cold]
fn large_angle_reduce(x: f32) -> (f32, u32) {
    let bits = x.to_bits();
    let significand = u64::from((bits & 0x007f_ffff) | MIN_NORMAL);
    let start = ((bits >> 23) & 255) - 120; // the bits before it give multiples of 4
    let word = |offset: u32| u64::from(two_over_pi_bits(start + offset));
    let product = ((significand * word(0)) << 32)
        .wrapping_add(significand * word(32))
        .wrapping_add((significand * word(64)) >> 32);

    let quadrant = product.wrapping_add(1 << 61) >> 62;
    let fraction = product.wrapping_sub(quadrant << 62) as i64;
    let size = fraction.unsigned_abs();

    // The leading 48 bits as two floats.
    let shift = (size | 1).leading_zeros();
    let leading = size << shift;
    let scale = f32::from_bits((105 - shift) << 23);
    let f_0 = (leading >> 40) as f32 * scale;
    let f_1 = (leading >> 16 & 0x00ff_ffff) as f32 * (scale * TWO_M24);
    let r = Exact::fma(f_0, PIO2_0, Exact::fma(f_0, PIO2_1, f_1 * PIO2_0));

    let flip = bits & SIGN != 0;
    let quadrant = quadrant as u32;
    let n = if flip {
        quadrant.wrapping_neg()
    } else {
        quadrant
    };
    (if (fraction < 0) != flip { -r } else { r }, n)
}

/// Whether an angle's reduction multiplies by 2/pi in integers.
#[inline(always)]
fn is_large(x: f32) -> bool {
    let size = abs(x);
    size > ANGLE_HIGH && size < f32::INFINITY
}

/// Whether no angle is larger than 2^17: then [`FloatOps::sin_within`] and its kin give each sine.
#[inline(always)]
pub fn angles_are_within(angles: &[f32]) -> bool {
    !angles.iter().fold(false, |large, x| large | is_large(*x))
}

#[inline(always)]
fn reduce<A: FloatOps>(x: f32) -> (f32, u32) {
    if is_large(x) {
        large_angle_reduce(x)
    } else {
        angle_reduce::<A>(x)
    }
}

/// `x = n pi/2 + r + low` with `|r| <= pi/4`, for `|x| <= 2^17`: `(r, low, n)`.
#[inline(always)]
pub(super) fn angle_reduce_pair<A: FloatOps>(x: f32) -> (f32, f32, u32) {
    let (r, whole, n) = angle_parts::<A>(x);
    (r, A::mul(whole, -PIO2_2), n)
}

/// `x = n pi/2 + r + low` with `|r| <= pi/4`: `(r, low, n)`.
#[inline(always)]
pub(super) fn reduce_pair<A: FloatOps>(x: f32) -> (f32, f32, u32) {
    if is_large(x) {
        let (r, n) = large_angle_reduce(x);
        (r, 0.0, n)
    } else {
        angle_reduce_pair::<A>(x)
    }
}

/// `sin(r + n pi/2)` for `|r| <= pi/4`.
#[inline(always)]
fn quadrant_sin<A: FloatOps>(r: f32, n: u32) -> f32 {
    let z = A::mul(r, r);
    let s = horner!(A, z, SIN_2, SIN_1, SIN_0);
    let s = A::fma(A::mul(z, r), s, r);
    let c = horner!(A, z, COS_2, COS_1, COS_0);
    let c = A::fma(A::mul(z, z), c, A::fma(z, -0.5, 1.0));
    let y = if n & 1 == 0 { s } else { c };
    f32::from_bits(y.to_bits() ^ ((n & 2) << 30))
}

/// The sine of `x = n pi/2 + r`.
#[inline(always)]
fn sin_of<A: FloatOps>(x: f32, (r, n): (f32, u32)) -> f32 {
    let y = quadrant_sin::<A>(r, n);
    let y = if abs(x) < TINY_ANGLE { flush(x) } else { y };
    if x.to_bits() & MAGNITUDE >= INFINITY {
        f32::NAN
    } else {
        y
    }
}

/// The cosine of `x = n pi/2 + r`.
#[inline(always)]
fn cos_of<A: FloatOps>(x: f32, (r, n): (f32, u32)) -> f32 {
    let y = quadrant_sin::<A>(r, n.wrapping_add(1));
    if x.to_bits() & MAGNITUDE >= INFINITY {
        f32::NAN
    } else {
        y
    }
}

/// The sine; NaN for infinities.
#[inline(always)]
pub(super) fn sin<A: FloatOps>(x: f32) -> f32 {
    sin_of::<A>(x, reduce::<A>(x))
}

/// The cosine; NaN for infinities.
#[inline(always)]
pub(super) fn cos<A: FloatOps>(x: f32) -> f32 {
    cos_of::<A>(x, reduce::<A>(x))
}

/// [`sin`] for an angle up to 2^17, infinity or NaN.
#[inline(always)]
pub(super) fn sin_within<A: FloatOps>(x: f32) -> f32 {
    sin_of::<A>(x, angle_reduce::<A>(x))
}

/// [`cos`] for an angle up to 2^17, infinity or NaN.
#[inline(always)]
pub(super) fn cos_within<A: FloatOps>(x: f32) -> f32 {
    cos_of::<A>(x, angle_reduce::<A>(x))
}
