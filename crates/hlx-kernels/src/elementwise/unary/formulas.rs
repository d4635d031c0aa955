//! The formulas of the unary operations in Rust, as in `shaders/include/unary`.

// Every formula of f32 has the same signature, also where it needs no arithmetic.
#![allow(clippy::extra_unused_type_parameters)]

use hlx_core::arith::{FloatOps, INFINITY, MAGNITUDE, SIGN, abs, add, div, sqrt};

use super::super::family::formulas;
use super::super::rounding::{ceil, floor, round, trunc};
pub(super) use crate::activation::formulas::{
    gelu_forward as gelu_f32, gelu_tanh_forward as gelu_tanh_f32, relu_forward as relu_f32,
    silu_forward as silu_f32, softplus_forward as softplus_f32,
};

/// Formulas that are a function of [`FloatOps`].
macro_rules! functions {
    ($($name:ident $function:ident)+) => {$(
        #[inline(always)]
        pub(super) fn $name<A: FloatOps>(x: f32) -> f32 {
            A::$function(x)
        }
    )+};
}
functions! {
    rsqrt_f32 rsqrt exp_f32 exp log_f32 log sin_f32 sin cos_f32 cos tanh_f32 tanh
    sigmoid_f32 sigmoid erf_f32 erf exp2_f32 exp2 expm1_f32 expm1 log2_f32 log2 log10_f32 log10
    log1p_f32 log1p tan_f32 tan asin_f32 asin acos_f32 acos atan_f32 atan sinh_f32 sinh
    cosh_f32 cosh
}

formulas! {
    neg_f32<A>(x: f32) -> f32 { f32::from_bits(x.to_bits() ^ SIGN) }
    neg_int(x: u32) -> u32 { x.wrapping_neg() }
    abs_f32<A>(x: f32) -> f32 { abs(x) }
    abs_i32(x: i32) -> i32 { x.wrapping_abs() }
    abs_u32(x: u32) -> u32 { x }
    square_f32<A>(x: f32) -> f32 { A::mul(x, x) }
    square_int(x: u32) -> u32 { x.wrapping_mul(x) }
    sign_f32<A>(x: f32) -> f32 { f32::from(i8::from(x > 0.0) - i8::from(x < 0.0)) }
    sign_i32(x: i32) -> i32 { x.signum() }
    sign_u32(x: u32) -> u32 { x.min(1) }
    relu_i32(x: i32) -> i32 { x.max(0) }
    relu_u32(x: u32) -> u32 { x }
    floor_f32<A>(x: f32) -> f32 { floor(x) }
    floor_int(x: u32) -> u32 { x }
    ceil_f32<A>(x: f32) -> f32 { ceil(x) }
    ceil_int(x: u32) -> u32 { x }
    round_f32<A>(x: f32) -> f32 { round(x) }
    round_int(x: u32) -> u32 { x }
    trunc_f32<A>(x: f32) -> f32 { trunc(x) }
    trunc_int(x: u32) -> u32 { x }
    isnan_f32<A>(x: f32) -> bool { x.is_nan() }
    isnan_int(_x: u32) -> bool { false }
    isfinite_f32<A>(x: f32) -> bool { x.to_bits() & MAGNITUDE < INFINITY }
    isfinite_int(_x: u32) -> bool { true }
    logical_not_f32<A>(x: f32) -> bool { x == 0.0 }
    logical_not_int(x: u32) -> bool { x == 0 }
    bitwise_not_int(x: u32) -> u32 { !x }
    reciprocal_f32<A>(x: f32) -> f32 { div(1.0, x) }
    sqrt_f32<A>(x: f32) -> f32 { sqrt(x) }
}

#[inline(always)]
pub(super) fn leaky_relu_f32<A: FloatOps>(x: f32, [slope, _]: [f32; 2]) -> f32 {
    if x > 0.0 { x } else { A::mul(x, slope) }
}

#[inline(always)]
pub(super) fn elu_f32<A: FloatOps>(x: f32, [alpha, _]: [f32; 2]) -> f32 {
    if x > 0.0 {
        x
    } else {
        A::mul(alpha, A::expm1(x))
    }
}

/// The upper bound where the bounds cross; NaN of any NaN.
#[inline(always)]
pub(super) fn clamp_f32<A: FloatOps>(x: f32, [low, high]: [f32; 2]) -> f32 {
    let above = if x < low { low } else { x };
    let within = if above > high { high } else { above };
    if low.is_nan() || high.is_nan() {
        f32::NAN
    } else {
        within
    }
}

#[inline(always)]
pub(super) fn clamp_i32(x: i32, [low, high]: [i32; 2]) -> i32 {
    x.max(low).min(high)
}

#[inline(always)]
pub(super) fn clamp_u32(x: u32, [low, high]: [u32; 2]) -> u32 {
    x.max(low).min(high)
}

#[inline(always)]
pub(super) fn mish_f32<A: FloatOps>(x: f32) -> f32 {
    A::mul(x, A::tanh(softplus_f32::<A>(x)))
}

/// NaN stays.
#[inline(always)]
pub(super) fn hardswish_f32<A: FloatOps>(x: f32) -> f32 {
    let gate = add(x, 3.0).clamp(0.0, 6.0);
    div(A::mul(x, gate), 6.0)
}
