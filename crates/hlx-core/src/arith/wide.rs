//! Multiply-add and multiplication through f64: the exact result on any processor, whatever it
//! fuses and flushes. About ten scalar instructions; the emulation in f32 takes eighty.

use super::{MIN_NORMAL, SIGN, flush};

/// 2^-126 - 2^-151: what is smaller rounds, to 24 bits, to less than 2^-126.
const TINY: f64 = f64::from_bits((1023 - 127) << 52 | 0x000f_ffff_f000_0000);

/// Rounds an f64 to f32 with HLX's flush, in any mode of the thread: what rounds to less than
/// 2^-126 is a zero of its sign, and what rounds to 2^-126 is 2^-126.
#[inline(always)]
pub fn to_f32(x: f64) -> f32 {
    let sign = (x.to_bits() >> 32) as u32 & SIGN;
    let rounded = if x.abs() < f64::from(f32::MIN_POSITIVE) {
        f32::from_bits(sign | MIN_NORMAL)
    } else {
        x as f32
    };
    if x.abs() < TINY {
        f32::from_bits(sign)
    } else {
        rounded
    }
}

/// `a * b` under flush-to-zero, in any mode of the thread: 48 bits of product fit in an f64.
#[inline(always)]
pub fn mul(a: f32, b: f32) -> f32 {
    to_f32(f64::from(flush(a)) * f64::from(flush(b)))
}

/// Whether an f64 lies halfway between two neighbouring floats; NaN and infinities may be either.
#[inline(always)]
pub fn is_halfway(x: f64) -> bool {
    x.to_bits() & 0x1fff_ffff == 0x1000_0000
}

/// Whether `x as f32` may differ from [`to_f32`] on this processor: below 2^-126, but not zero,
/// where it does not flush as HLX does.
#[inline(always)]
pub fn is_tiny(x: f64) -> bool {
    // On x86 the conversion flushes by HLX's rule, under the thread's mode.
    let native = cfg!(all(target_arch = "x86_64", not(miri)));
    !native && x != 0.0 && x.abs() < f64::from(f32::MIN_POSITIVE)
}

/// `a * b + c` under flush-to-zero, fused, in any mode of the thread.
///
/// The product is exact in f64. The sum, rounded to f64, rounds to f32 as the exact sum does,
/// unless it lies halfway between two floats; the bit that was lost then decides (round-to-odd,
/// Boldo and Melquiond 2008).
#[inline(always)]
pub fn fma(a: f32, b: f32, c: f32) -> f32 {
    let product = f64::from(flush(a)) * f64::from(flush(b));
    let addend = f64::from(flush(c));
    let sum = product + addend;
    to_f32(if is_halfway(sum) {
        off_halfway(product, addend, sum)
    } else {
        sum
    })
}

/// Moves the rounded `sum` by one unit towards the exact `product + addend`. The sum's last bit is
/// even, so that this is rounding to odd.
#[cold]
fn off_halfway(product: f64, addend: f64, sum: f64) -> f64 {
    // The error of the sum (Knuth); NaN where an operand is not a number, which changes nothing.
    let addend_part = sum - product;
    let product_part = sum - addend_part;
    let error = (product - product_part) + (addend - addend_part);
    let bits = sum.to_bits();
    let away = (error > 0.0) == (sum > 0.0);
    f64::from_bits(if error.abs() > 0.0 {
        if away { bits + 1 } else { bits - 1 }
    } else {
        bits
    })
}
