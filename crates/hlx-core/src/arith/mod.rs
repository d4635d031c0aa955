//! HLX arithmetic on the CPU: the twin of `shaders/include/math.glsl`, bit for bit.
//!
//! Values are binary32, rounded to nearest even; a subnormal counts as a zero of its sign, on
//! input and on output. The functions here rely on the thread's flush-to-zero mode for that
//! ([`crate::cpu::with_flush`]; the workers of the CPU device always run so). They are scalar,
//! inlined and free of branches, so that loops over slices vectorise; only [`sin`] and [`cos`]
//! branch, for angles beyond 2^17.
//!
//! The error bounds below are against the exact value, over inputs whose result is a normal
//! number; the tests hold them.

mod constants;
mod division;
mod exp_log;
mod philox;
pub mod reference;
mod sin_cos;
pub mod soft;
mod tanh_erf;
#[cfg(test)]
mod tests;

pub use constants::*;
pub use division::{div, rsqrt, sqrt};
pub use exp_log::{exp, log, sigmoid};
pub use philox::{normal_pair, philox4x32, uniform};
pub use sin_cos::{cos, sin};
pub use tanh_erf::{erf, tanh};

const SIGN: u32 = 0x8000_0000;
const MAGNITUDE: u32 = 0x7fff_ffff;
const MIN_NORMAL: u32 = 0x0080_0000;
const INFINITY: u32 = 0x7f80_0000;

/// `a * b + c`, rounded once.
#[inline(always)]
pub fn fma(a: f32, b: f32, c: f32) -> f32 {
    a.mul_add(b, c)
}

/// `a * b`.
#[inline(always)]
pub fn mul(a: f32, b: f32) -> f32 {
    a * b
}

/// `a + b`.
#[inline(always)]
pub fn add(a: f32, b: f32) -> f32 {
    a + b
}

/// `a - b`.
#[inline(always)]
pub fn sub(a: f32, b: f32) -> f32 {
    a - b
}

/// The larger; `b` where they are equal (so the second zero of two); NaN if either is NaN.
#[inline(always)]
pub fn max(a: f32, b: f32) -> f32 {
    if a > b || a.is_nan() { a } else { b }
}

/// Turns -0 into +0: the end of every chain of a product.
#[inline(always)]
pub fn pos0(x: f32) -> f32 {
    let bits = x.to_bits();
    f32::from_bits(if bits & MAGNITUDE == 0 { 0 } else { bits })
}

/// A subnormal becomes a zero of its sign, by integer operations; anything else stays.
#[inline(always)]
pub fn flush(x: f32) -> f32 {
    let bits = x.to_bits();
    f32::from_bits(if bits & MAGNITUDE < MIN_NORMAL {
        bits & SIGN
    } else {
        bits
    })
}

/// `|x|` by its bits.
#[inline(always)]
pub fn abs(x: f32) -> f32 {
    f32::from_bits(x.to_bits() & MAGNITUDE)
}

/// `|x|` with the sign bit of `sign`.
#[inline(always)]
pub fn copysign(x: f32, sign: f32) -> f32 {
    f32::from_bits((x.to_bits() & MAGNITUDE) | (sign.to_bits() & SIGN))
}
