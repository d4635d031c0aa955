//! Division, square root and reciprocal root.
//!
//! The hardware's division and square root are correctly rounded, and so are the GLSL sequences
//! (their Rust port is [`super::soft`]), so the bits agree.

use super::constants::*;
use super::{FloatOps, INFINITY, MAGNITUDE, MIN_NORMAL};

/// `a / b`, correctly rounded. `x/0` is infinite, `0/0` and `inf/inf` are NaN.
#[inline(always)]
pub fn div(a: f32, b: f32) -> f32 {
    a / b
}

/// The square root, correctly rounded; `sqrt(-0) = -0`, NaN below zero.
#[inline(always)]
pub fn sqrt(x: f32) -> f32 {
    x.sqrt()
}

/// `1 / sqrt(x)` within 1e-4, for a normal `x`.
#[inline(always)]
pub(super) fn rsqrt_seed<A: FloatOps>(x: f32) -> f32 {
    let y = f32::from_bits(RSQRT_SEED.wrapping_sub(x.to_bits() >> 1));
    let e = A::fma(A::mul(-x, y), y, 1.0);
    let step = A::mul(e, A::fma(e, THREE_EIGHTHS, 0.5));
    A::fma(y, step, y)
}

/// `1 / sqrt(x)`; infinite at both zeros, NaN below zero.
#[inline(always)]
pub(super) fn rsqrt<A: FloatOps>(x: f32) -> f32 {
    let bits = x.to_bits();
    let y = rsqrt_seed::<A>(x);
    let t = A::mul(x, y);
    let t_error = A::fma(x, y, -t);
    let e = A::fma(-t, y, 1.0);
    let e = A::fma(-t_error, y, e);
    let root = A::fma(0.5 * y, e, y);

    let result = if bits >= INFINITY { f32::NAN } else { root };
    let result = if bits == INFINITY { 0.0 } else { result };
    if bits & MAGNITUDE < MIN_NORMAL {
        f32::INFINITY
    } else {
        result
    }
}
