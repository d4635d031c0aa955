//! HLX arithmetic on the CPU: the twin of `shaders/include/functions.glsl`, bit for bit. A file here has the
//! name of its twin in that folder.
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
//! Error bounds are against the exact value, over inputs whose result is a normal number; the tests
//! hold them.

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
mod divide;
mod exp_log;
mod exp_log_variants;
mod functions;
mod ops;
mod pow;
mod random;
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
pub use divide::{div, sqrt};
pub use ops::{Exact, FloatOps, Native};
pub use random::{philox4x32, uniform};
pub use sin_cos::angles_are_within;

/// The sign bit.
pub const SIGN: u32 = 0x8000_0000;
/// All bits but the sign.
pub const MAGNITUDE: u32 = 0x7fff_ffff;
/// The bits of 2^-126: below them are the subnormals.
pub const MIN_NORMAL: u32 = 0x0080_0000;
/// The bits of infinity; a larger magnitude is NaN.
pub const INFINITY: u32 = 0x7f80_0000;

/// `a * b + c`, rounded once.
pub fn fma(a: f32, b: f32, c: f32) -> f32 {
    Exact::fma(a, b, c)
}

/// `a * b`.
pub fn mul(a: f32, b: f32) -> f32 {
    Exact::mul(a, b)
}

macro_rules! free_functions {
    ($($(#[$documentation:meta])* $name:ident($($x:ident),+) $module:ident;)+) => {$(
        $(#[$documentation])*
        pub fn $name($($x: f32),+) -> f32 {
            Exact::$name($($x),+)
        }
    )+};
}
functions::for_each_function!(free_functions);

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
