//! Whole numbers next to a float, by its bits; zeros keep the sign of x, NaN stays.

use hlx_core::arith::{abs, copysign};

/// Drops the fraction.
#[inline(always)]
pub(super) fn trunc(x: f32) -> f32 {
    let bits = x.to_bits();
    let exponent = (bits >> 23) & 255;
    let fraction = match exponent {
        ..127 => 0x7fff_ffff,
        127..150 => 0x007f_ffff >> (exponent - 127),
        _ => 0,
    };
    f32::from_bits(bits & !fraction)
}

#[inline(always)]
pub(super) fn floor(x: f32) -> f32 {
    let whole = trunc(x);
    if x < whole { whole - 1.0 } else { whole }
}

#[inline(always)]
pub(super) fn ceil(x: f32) -> f32 {
    let whole = trunc(x);
    if x > whole { whole + 1.0 } else { whole }
}

/// From 2^23 on floats are whole, and a sum is rounded to them, ties to even.
#[inline(always)]
pub(super) fn round(x: f32) -> f32 {
    const WHOLE_FROM: f32 = 8_388_608.0;
    let rounded = copysign((abs(x) + WHOLE_FROM) - WHOLE_FROM, x);
    if abs(x) < WHOLE_FROM { rounded } else { x }
}
