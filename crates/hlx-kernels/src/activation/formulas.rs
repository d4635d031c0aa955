//! The formulas of the activations in Rust: `NAME_forward(x)` and `NAME_backward(x, dy)` of each kind.

// Every kind has the same signature, also where it needs no arithmetic.
#![allow(clippy::extra_unused_type_parameters)]

use hlx_core::arith::{
    FloatOps, GELU_CUBIC, INV_SQRT_2, INV_SQRT_2PI, SQRT_2_OVER_PI, abs, add, div, sub,
};

/// Three times [`GELU_CUBIC`].
const GELU_CUBIC_3: f32 = 0.134_145;

/// `sqrt(2/pi) (x + 0.044715 x^3)`
#[inline(always)]
fn gelu_inner<A: FloatOps>(x: f32, x_squared: f32) -> f32 {
    A::mul(
        A::mul(SQRT_2_OVER_PI, x),
        A::fma(GELU_CUBIC, x_squared, 1.0),
    )
}

/// Within [-16, 16]: both derivatives are 0 or 1 beyond, and `x^2` cannot overflow. NaN stays.
#[inline(always)]
fn within_16(x: f32) -> f32 {
    x.clamp(-16.0, 16.0)
}

#[inline(always)]
pub(crate) fn gelu_forward<A: FloatOps>(x: f32) -> f32 {
    A::mul(A::mul(0.5, x), add(1.0, A::erf(A::mul(x, INV_SQRT_2))))
}

#[inline(always)]
pub(crate) fn gelu_backward<A: FloatOps>(x: f32, dy: f32) -> f32 {
    let x = within_16(x);
    let cdf = A::mul(0.5, add(1.0, A::erf(A::mul(x, INV_SQRT_2))));
    let pdf = A::mul(INV_SQRT_2PI, A::exp(A::mul(A::mul(-0.5, x), x)));
    A::mul(dy, A::fma(x, pdf, cdf))
}

#[inline(always)]
pub(crate) fn gelu_tanh_forward<A: FloatOps>(x: f32) -> f32 {
    A::mul(
        A::mul(0.5, x),
        add(1.0, A::tanh(gelu_inner::<A>(x, A::mul(x, x)))),
    )
}

#[inline(always)]
pub(crate) fn gelu_tanh_backward<A: FloatOps>(x: f32, dy: f32) -> f32 {
    let x = within_16(x);
    let x_squared = A::mul(x, x);
    let t = A::tanh(gelu_inner::<A>(x, x_squared));
    let sech_squared = A::fma(-t, t, 1.0);
    let inner_slope = A::mul(SQRT_2_OVER_PI, A::fma(GELU_CUBIC_3, x_squared, 1.0));
    let right = A::mul(A::mul(A::mul(0.5, x), sech_squared), inner_slope);
    A::mul(dy, A::fma(0.5, add(1.0, t), right))
}

/// NaN compares false, and so passes; -0 does not.
#[inline(always)]
pub(crate) fn relu_forward<A: FloatOps>(x: f32) -> f32 {
    if x <= 0.0 { 0.0 } else { x }
}

#[inline(always)]
pub(crate) fn relu_backward<A: FloatOps>(x: f32, dy: f32) -> f32 {
    if x <= 0.0 { 0.0 } else { dy }
}

#[inline(always)]
pub(crate) fn silu_forward<A: FloatOps>(x: f32) -> f32 {
    A::mul(x, A::sigmoid(x))
}

#[inline(always)]
pub(crate) fn silu_backward<A: FloatOps>(x: f32, dy: f32) -> f32 {
    let s = A::sigmoid(x);
    A::mul(dy, A::mul(s, A::fma(x, sub(1.0, s), 1.0)))
}

#[inline(always)]
pub(crate) fn sigmoid_forward<A: FloatOps>(x: f32) -> f32 {
    A::sigmoid(x)
}

#[inline(always)]
pub(crate) fn sigmoid_backward<A: FloatOps>(x: f32, dy: f32) -> f32 {
    let e = A::exp(-abs(x));
    let one_plus = add(1.0, e);
    A::mul(dy, div(e, A::mul(one_plus, one_plus)))
}

#[inline(always)]
pub(crate) fn tanh_forward<A: FloatOps>(x: f32) -> f32 {
    A::tanh(x)
}

#[inline(always)]
pub(crate) fn tanh_backward<A: FloatOps>(x: f32, dy: f32) -> f32 {
    let t = A::tanh(x);
    A::mul(dy, A::fma(-t, t, 1.0))
}

/// `(e - (u - 1)) / u` is what the rounding of `u = 1 + e` took from `log(1 + e)`.
#[inline(always)]
pub(crate) fn softplus_forward<A: FloatOps>(x: f32) -> f32 {
    let e = A::exp(-abs(x));
    let u = add(1.0, e);
    let lost = sub(e, sub(u, 1.0));
    let y = add(if x > 0.0 { x } else { 0.0 }, add(A::log(u), div(lost, u)));
    if x > 20.0 { x } else { y }
}

#[inline(always)]
pub(crate) fn softplus_backward<A: FloatOps>(x: f32, dy: f32) -> f32 {
    if x > 20.0 {
        dy
    } else {
        A::mul(dy, A::sigmoid(x))
    }
}
