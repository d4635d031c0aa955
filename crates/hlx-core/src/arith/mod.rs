//! HLX arithmetic on the CPU: the twin of `shaders/include/math.glsl`, bit for bit.
//!
//! Values are binary32, rounded to nearest even; a subnormal counts as a zero of its sign, on
//! input and on output. The functions here rely on the thread's flush-to-zero mode for that
//! ([`crate::cpu::with_flush`]; the workers of the CPU device always run so).
//!
//! The free functions are for the host: they give the same bits on every processor, computing
//! [`fma`] in f64. Kernels call the methods of [`FloatOps`] inside
//! [`multiversion!`](crate::multiversion), where the same sequences are compiled to the processor's
//! instructions. Those are scalar, inlined and free of branches, so that loops over slices
//! vectorise; only sine, cosine and tangent branch, for angles beyond 2^17.
//!
//! The error bounds below are against the exact value, over inputs whose result is a normal
//! number; the tests hold them.

/// `c_0 + c_1 x + c_2 x^2 + ...` by Horner's rule, one multiply-add a coefficient, from the last one
/// down. It expands to plain statements: a closure would be compiled for the baseline processor.
macro_rules! horner {
    ($ops:ident, $x:expr, $last:expr, $($coefficient:expr),+) => {{
        let p = $last;
        $(let p = $ops::fma(p, $x, $coefficient);)+
        p
    }};
}

mod arc;
mod constants;
mod division;
mod exp_log;
mod exp_log_variants;
mod ops;
mod philox;
mod pow;
pub mod reference;
mod sin_cos;
mod sinh_cosh;
pub mod soft;
mod tan;
mod tanh_erf;
#[cfg(test)]
mod tests;
pub mod wide;

pub use constants::*;
pub use division::{div, sqrt};
pub use ops::{Exact, FloatOps, Native};
pub use philox::{philox4x32, uniform};
pub use sin_cos::angles_are_within;

const SIGN: u32 = 0x8000_0000;
const MAGNITUDE: u32 = 0x7fff_ffff;
const MIN_NORMAL: u32 = 0x0080_0000;
const INFINITY: u32 = 0x7f80_0000;

/// `a * b + c`, rounded once.
pub fn fma(a: f32, b: f32, c: f32) -> f32 {
    Exact::fma(a, b, c)
}

/// `a * b`.
pub fn mul(a: f32, b: f32) -> f32 {
    Exact::mul(a, b)
}

/// `1 / sqrt(x)`; infinite at both zeros, NaN below zero. Error at most 0.75 ulp.
pub fn rsqrt(x: f32) -> f32 {
    Exact::rsqrt(x)
}

/// `exp(x)`; infinite above 88.72283, +0 below -87.33654. Error at most 1.02 ulp.
pub fn exp(x: f32) -> f32 {
    Exact::exp(x)
}

/// The natural logarithm; -inf at both zeros, NaN below zero. Error at most 0.9 ulp.
pub fn log(x: f32) -> f32 {
    Exact::log(x)
}

/// `2^x`; infinite from 128 on, +0 below -126. Exact for a whole `x`. Error at most 0.85 ulp.
pub fn exp2(x: f32) -> f32 {
    Exact::exp2(x)
}

/// `exp(x) - 1`; infinite above 88.72283, keeps the sign of a zero. Error at most 1.5 ulp.
pub fn expm1(x: f32) -> f32 {
    Exact::expm1(x)
}

/// The logarithm to base 2; -inf at both zeros, NaN below zero. Exact for a power of two.
/// Error at most 1.1 ulp.
pub fn log2(x: f32) -> f32 {
    Exact::log2(x)
}

/// The logarithm to base 10; -inf at both zeros, NaN below zero. Error at most 1 ulp.
pub fn log10(x: f32) -> f32 {
    Exact::log10(x)
}

/// `log(1 + x)`; -inf at -1, NaN below, keeps the sign of a zero. Error at most 1.5 ulp.
pub fn log1p(x: f32) -> f32 {
    Exact::log1p(x)
}

/// `x^y`, with the special values of C's `powf`. Error at most 0.95 ulp.
pub fn pow(x: f32, y: f32) -> f32 {
    Exact::pow(x, y)
}

/// `1 / (1 + exp(-x))`, without overflow; +0 below -87.33654. Error at most 2 ulp.
pub fn sigmoid(x: f32) -> f32 {
    Exact::sigmoid(x)
}

/// The hyperbolic tangent; odd, zeros keep their sign. Error at most 2 ulp.
pub fn tanh(x: f32) -> f32 {
    Exact::tanh(x)
}

/// The error function; odd, zeros keep their sign. Error at most 1.2 ulp.
pub fn erf(x: f32) -> f32 {
    Exact::erf(x)
}

/// The sine; NaN for infinities. Error at most 1.6 ulp, for angles of any size.
pub fn sin(x: f32) -> f32 {
    Exact::sin(x)
}

/// The cosine; NaN for infinities. Error at most 1.6 ulp, for angles of any size.
pub fn cos(x: f32) -> f32 {
    Exact::cos(x)
}

/// The tangent; NaN for infinities, keeps the sign of a zero. Error at most 2 ulp, for angles of
/// any size.
pub fn tan(x: f32) -> f32 {
    Exact::tan(x)
}

/// The arc sine; NaN beyond 1, keeps the sign of a zero. Error at most 1.25 ulp.
pub fn asin(x: f32) -> f32 {
    Exact::asin(x)
}

/// The arc cosine; NaN beyond 1. Error at most 1.25 ulp.
pub fn acos(x: f32) -> f32 {
    Exact::acos(x)
}

/// The arc tangent; keeps the sign of a zero. Error at most 1.25 ulp.
pub fn atan(x: f32) -> f32 {
    Exact::atan(x)
}

/// The angle of the point `(x, y)`, with the special values of C's `atan2f`. Error at most 1.6 ulp.
pub fn atan2(y: f32, x: f32) -> f32 {
    Exact::atan2(y, x)
}

/// The hyperbolic sine; infinite beyond 89.415985, keeps the sign of a zero. Error at most
/// 1.65 ulp.
pub fn sinh(x: f32) -> f32 {
    Exact::sinh(x)
}

/// The hyperbolic cosine; infinite beyond 89.415985. Error at most 1.65 ulp.
pub fn cosh(x: f32) -> f32 {
    Exact::cosh(x)
}

/// Two words to two standard normal values (Box and Muller); the largest is 5.77.
pub fn normal_pair(word_0: u32, word_1: u32) -> (f32, f32) {
    Exact::normal_pair(word_0, word_1)
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

/// An odd function's value: `y` with the sign of `x`, or `x` if that is NaN.
///
/// NaN is chosen first. The other way round, AVX-512 does both in one masked instruction, whose
/// truth table LLVM before its pull request 209782 (July 2026) gets wrong for some orders of operands.
#[inline(always)]
fn odd(y: f32, x: f32) -> f32 {
    copysign(if x.is_nan() { x } else { y }, x)
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
