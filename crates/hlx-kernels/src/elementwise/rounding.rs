//! Whole numbers next to a float, by its bits; zeros keep the sign of x, NaN stays.

use hlx_core::arith::{MAGNITUDE, abs, copysign};

/// Drops the fraction.
#[inline(always)]
pub(super) fn trunc(x: f32) -> f32 {
    let bits = x.to_bits();
    let exponent = (bits >> 23) & 255;
    let below_point = 0x007f_ffff >> (exponent.wrapping_sub(127) & 31);
    let fraction = if exponent < 150 { below_point } else { 0 };
    let dropped = if exponent < 127 { MAGNITUDE } else { fraction };
    f32::from_bits(bits & !dropped)
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

/// Up where the fraction is above a half, or a half beside an odd number. Not by adding 2^23 and taking
/// it off again: LLVM compiled that for AVX-512 to x itself in a loop's tail.
#[inline(always)]
pub(super) fn round(x: f32) -> f32 {
    let whole = trunc(x);
    let fraction = abs(x - whole);
    let half = trunc(whole * 0.5);
    let up = fraction > 0.5 || (fraction == 0.5 && half + half != whole);
    let rounded = if up { abs(whole) + 1.0 } else { abs(whole) };
    copysign(rounded, x)
}
