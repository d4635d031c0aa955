//! The GLSL side's emulations in Rust: fma and mul without fused or flushing instructions,
//! division and square root by fma. They exist to be tested: against the hardware, and over models
//! of devices that flush by another rule.

use super::constants::*;
use super::divide::rsqrt_seed;
use super::{FloatOps, INFINITY, MAGNITUDE, MIN_NORMAL, SIGN, abs, flush};

/// The instructions that a device has.
pub trait Device {
    /// The device's `fma(a, b, c)`.
    fn fma(a: f32, b: f32, c: f32) -> f32;
    /// The device's `a * b`.
    fn mul(a: f32, b: f32) -> f32;
    /// The device's `a + b`.
    fn add(a: f32, b: f32) -> f32;
}

/// This thread's instructions, which need no fused multiply-add.
pub struct Here;

impl Device for Here {
    #[inline(always)]
    fn fma(a: f32, b: f32, c: f32) -> f32 {
        super::fma(a, b, c)
    }

    #[inline(always)]
    fn mul(a: f32, b: f32) -> f32 {
        a * b
    }

    #[inline(always)]
    fn add(a: f32, b: f32) -> f32 {
        a + b
    }
}

/// Flushes `rounded`, the device's result. `scaled` is the same result times 2^64, far from the
/// subnormals: it alone shows whether a result next to 2^-126 rounds to it. A device that preserves
/// subnormals rounds too much to 2^-126, one that flushes before rounding too little.
#[inline(always)]
fn flush_result(rounded: f32, scaled: f32) -> f32 {
    let bits = rounded.to_bits();
    let tiny = bits & MAGNITUDE <= MIN_NORMAL;
    let flushed = if tiny { bits & SIGN } else { bits };
    f32::from_bits(if abs(scaled) == TWO_M62 {
        scaled.to_bits() & SIGN | MIN_NORMAL
    } else {
        flushed
    })
}

/// `a + b` under flush-to-zero: a tiny sum is exact.
#[inline(always)]
pub fn softadd<D: Device>(a: f32, b: f32) -> f32 {
    flush(D::add(flush(a), flush(b)))
}

/// `a * b` under flush-to-zero.
#[inline(always)]
pub fn softmul<D: Device>(a: f32, b: f32) -> f32 {
    let (x, y) = (flush(a), flush(b));
    let (small, large) = if abs(x) < abs(y) { (x, y) } else { (y, x) };
    flush_result(D::mul(x, y), D::mul(D::mul(small, TWO_64), large))
}

/// `a * b + c` under flush-to-zero, on a device that fuses.
#[inline(always)]
pub fn flushed_fma<D: Device>(a: f32, b: f32, c: f32) -> f32 {
    let (x, y, z) = (flush(a), flush(b), flush(c));
    let (small, large) = if abs(x) < abs(y) { (x, y) } else { (y, x) };
    let scaled = D::fma(D::mul(small, TWO_64), large, D::mul(z, TWO_64));
    flush_result(D::fma(x, y, z), scaled)
}

/// `(s, error)` with `s + error = a + b` exactly (Knuth).
#[inline(always)]
fn two_sum<D: Device>(a: f32, b: f32) -> (f32, f32) {
    let s = D::add(a, b);
    let b_part = D::add(s, -a);
    let a_part = D::add(s, -b_part);
    (s, D::add(D::add(a, -a_part), D::add(b, -b_part)))
}

/// `a + b` rounded to odd: a second rounding to nearest then rounds as one would have.
#[inline(always)]
fn odd_sum<D: Device>(a: f32, b: f32) -> f32 {
    let (s, error) = two_sum::<D>(a, b);
    let bits = s.to_bits();
    let inexact = error.to_bits() & MAGNITUDE != 0;
    let away = (error.to_bits() ^ bits) & SIGN == 0;
    let moved = if away {
        bits.wrapping_add(1)
    } else {
        bits.wrapping_sub(1)
    };
    f32::from_bits(if inexact && bits & 1 == 0 {
        moved
    } else {
        bits
    })
}

/// The fused `a * b + c` without a fused instruction, exact for every input: the significands are
/// multiplied exactly (Dekker), `c` is moved to their scale, and the three terms are added with
/// one rounding through round-to-odd (Boldo and Melquiond 2008).
#[inline(always)]
pub fn softfma<D: Device>(a: f32, b: f32, c: f32) -> f32 {
    let (a_bits, b_bits, c_bits) = (a.to_bits(), b.to_bits(), c.to_bits());
    let exponent = |bits: u32| (bits >> 23 & 255) as i32;
    let (a_exp, b_exp, c_exp) = (exponent(a_bits), exponent(b_bits), exponent(c_bits));

    // Exact product of the significands: high + low.
    let unit = |bits: u32| bits & 0x807f_ffff | 0x3f80_0000;
    let upper = |x: f32| f32::from_bits(x.to_bits() & 0xffff_f000);
    let (x, y) = (f32::from_bits(unit(a_bits)), f32::from_bits(unit(b_bits)));
    let (x_high, y_high) = (upper(x), upper(y));
    let (x_low, y_low) = (D::add(x, -x_high), D::add(y, -y_high));
    let high = D::mul(x, y);
    let low = D::add(D::mul(x_high, y_high), -high);
    let low = D::add(low, D::mul(x_high, y_low));
    let low = D::add(low, D::mul(x_low, y_high));
    let low = D::add(low, D::mul(x_low, y_low));

    // c at the product's scale; past 2^60 on either side only its sign matters to the other.
    let distance = c_exp - a_exp - b_exp + 127;
    let near = distance.clamp(-60, 60);
    let scale = if distance > 60 {
        c_exp - 187
    } else {
        a_exp + b_exp - 254
    };
    let c_scaled = unit(c_bits).wrapping_add((near as u32) << 23);
    let z = f32::from_bits(if c_exp == 0 { c_bits & SIGN } else { c_scaled });

    let (tail, tail_error) = two_sum::<D>(z, low);
    let (sum, sum_error) = two_sum::<D>(high, tail);
    let rounded = D::add(sum, odd_sum::<D>(sum_error, tail_error));

    let r_bits = rounded.to_bits();
    let r_exp = exponent(r_bits) + scale;
    let r_sign = r_bits & SIGN;
    let moved = r_bits.wrapping_add((scale as u32) << 23);
    let finite = if r_bits & MAGNITUDE == 0 {
        r_bits
    } else {
        moved
    };
    let bits = if r_exp <= 0 { r_sign } else { finite };
    let bits = if r_exp >= 255 {
        r_sign | INFINITY
    } else {
        bits
    };

    // A zero or non-finite factor: the product is exact. A non-finite c alone: c.
    let product_special = a_exp == 0 || b_exp == 0 || a_exp == 255 || b_exp == 255;
    let special = D::add(D::mul(flush(a), flush(b)), flush(c));
    let bits = if c_exp == 255 { c_bits } else { bits };
    if product_special {
        special
    } else {
        f32::from_bits(bits)
    }
}

/// `a / b` for `b` in `[1, 2]` and `a = 0` or `2^-64 <= |a| < 2^64`: correctly rounded.
///
/// A quadratic seed (1e-2), a cubic step (1e-6) and a Newton step give `1/b` correctly rounded for
/// every significand that matters but those near 2: 1/(2 - j 2^-23) = 1/2 + j 2^-25 + j^2 2^-49
/// lies just above a midpoint for odd j, so there the rounded value is written down. Two
/// corrections by the residual then round the quotient correctly (Markstein 1990).
#[inline(always)]
pub fn div_core<A: FloatOps>(a: f32, b: f32) -> f32 {
    let y = A::fma(A::fma(b, RECIP_2, RECIP_1), b, RECIP_0);
    let e = A::fma(-b, y, 1.0);
    let y = A::fma(y, A::fma(e, e, e), y);
    let y = A::fma(y, A::fma(-b, y, 1.0), y);
    let near_2 = f32::from_bits(0xbe00_0001_u32.wrapping_sub(b.to_bits()) >> 1);
    let y = if b.to_bits() >= RECIP_NEAR_2 {
        near_2
    } else {
        y
    };
    let q = a * y;
    let q = A::fma(A::fma(-b, q, a), y, q);
    A::fma(A::fma(-b, q, a), y, q)
}

/// `a / b`, correctly rounded, by fma and integers.
#[inline(always)]
pub fn softdiv<A: FloatOps>(a: f32, b: f32) -> f32 {
    let (a_bits, b_bits) = (a.to_bits(), b.to_bits());
    let exponent = |bits: u32| (bits >> 23 & 255) as i32;
    let unit = |bits: u32| f32::from_bits(bits & 0x007f_ffff | 0x3f80_0000);
    let (a_exp, b_exp) = (exponent(a_bits), exponent(b_bits));
    let sign = (a_bits ^ b_bits) & SIGN;
    let q = div_core::<A>(unit(a_bits), unit(b_bits)).to_bits();
    let shift = a_exp - b_exp;
    let q_exp = (q >> 23) as i32 + shift;
    let bits = q.wrapping_add((shift as u32) << 23);
    let bits = if q_exp <= 0 { 0 } else { bits };
    let bits = if q_exp >= 255 { INFINITY } else { bits };

    // Zeros and non-finite operands.
    let bits = if a_exp == 0 || b_exp == 255 { 0 } else { bits };
    let bits = if b_exp == 0 || a_exp == 255 {
        INFINITY
    } else {
        bits
    };
    let invalid = (a_exp == 0 && b_exp == 0) || (a_exp == 255 && b_exp == 255);
    let invalid = invalid || a.is_nan() || b.is_nan();
    if invalid {
        f32::NAN
    } else {
        f32::from_bits(bits | sign)
    }
}

/// The square root, correctly rounded, by fma and integers.
#[inline(always)]
pub fn softsqrt<A: FloatOps>(x: f32) -> f32 {
    let bits = x.to_bits();
    let is_small = x < TWO_M62;
    let m = x * if is_small { TWO_64 } else { 1.0 };
    let y = rsqrt_seed::<A>(m);
    let (g, h) = (m * y, 0.5 * y);
    let e = A::fma(-g, h, 0.5);
    let (g, h) = (A::fma(g, e, g), A::fma(h, e, h));
    let g = A::fma(A::fma(-g, g, m), h, g);
    let root = g * if is_small { TWO_M32 } else { 1.0 };

    let result = if bits >= INFINITY { f32::NAN } else { root };
    let result = if bits == INFINITY { x } else { result };
    if bits & MAGNITUDE < MIN_NORMAL {
        f32::from_bits(bits & SIGN)
    } else {
        result
    }
}
