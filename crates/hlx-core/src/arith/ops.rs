//! The two operations in which processors differ, multiply-add and multiplication, as a type
//! parameter of everything that is computed from them.

use super::{
    arc, division, exp_log, exp_log_variants, philox, pow, sin_cos, sinh_cosh, tan, tanh_erf, wide,
};

/// What a function or a kernel's CPU body is compiled for: [`Native`] or [`Exact`].
///
/// Additions, subtractions, divisions and square roots are the bare operators under both: on a
/// thread that flushes, their results agree on all processors. A tiny sum is exact, and a quotient
/// never lies in the interval just below 2^-126 where the rules for tininess differ.
pub trait FloatOps: Copy {
    /// `a * b + c`, rounded once.
    fn fma(a: f32, b: f32, c: f32) -> f32;

    /// `a * b`.
    fn mul(a: f32, b: f32) -> f32;

    /// As [`super::rsqrt`].
    #[inline(always)]
    fn rsqrt(x: f32) -> f32 {
        division::rsqrt::<Self>(x)
    }

    /// As [`super::exp`].
    #[inline(always)]
    fn exp(x: f32) -> f32 {
        exp_log::exp::<Self>(x)
    }

    /// As [`super::log`].
    #[inline(always)]
    fn log(x: f32) -> f32 {
        exp_log::log::<Self>(x)
    }

    /// As [`super::exp2`].
    #[inline(always)]
    fn exp2(x: f32) -> f32 {
        exp_log_variants::exp2::<Self>(x)
    }

    /// As [`super::expm1`].
    #[inline(always)]
    fn expm1(x: f32) -> f32 {
        exp_log_variants::expm1::<Self>(x)
    }

    /// As [`super::log2`].
    #[inline(always)]
    fn log2(x: f32) -> f32 {
        exp_log_variants::log2::<Self>(x)
    }

    /// As [`super::log10`].
    #[inline(always)]
    fn log10(x: f32) -> f32 {
        exp_log_variants::log10::<Self>(x)
    }

    /// As [`super::log1p`].
    #[inline(always)]
    fn log1p(x: f32) -> f32 {
        exp_log_variants::log1p::<Self>(x)
    }

    /// As [`super::pow()`].
    #[inline(always)]
    fn pow(x: f32, y: f32) -> f32 {
        pow::pow::<Self>(x, y)
    }

    /// As [`super::sigmoid`].
    #[inline(always)]
    fn sigmoid(x: f32) -> f32 {
        exp_log::sigmoid::<Self>(x)
    }

    /// As [`super::tanh`].
    #[inline(always)]
    fn tanh(x: f32) -> f32 {
        tanh_erf::tanh::<Self>(x)
    }

    /// As [`super::erf`].
    #[inline(always)]
    fn erf(x: f32) -> f32 {
        tanh_erf::erf::<Self>(x)
    }

    /// As [`super::sin`].
    #[inline(always)]
    fn sin(x: f32) -> f32 {
        sin_cos::sin::<Self>(x)
    }

    /// As [`super::cos`].
    #[inline(always)]
    fn cos(x: f32) -> f32 {
        sin_cos::cos::<Self>(x)
    }

    /// As [`super::tan()`].
    #[inline(always)]
    fn tan(x: f32) -> f32 {
        tan::tan::<Self>(x)
    }

    /// As [`Self::sin`] for an angle up to 2^17, infinity or NaN, without its branch: loops
    /// vectorise. [`super::angles_are_within`] says whether a slice holds no other.
    #[inline(always)]
    fn sin_within(x: f32) -> f32 {
        sin_cos::sin_within::<Self>(x)
    }

    /// As [`Self::cos`] for an angle up to 2^17, infinity or NaN, without its branch: loops
    /// vectorise. [`super::angles_are_within`] says whether a slice holds no other.
    #[inline(always)]
    fn cos_within(x: f32) -> f32 {
        sin_cos::cos_within::<Self>(x)
    }

    /// As [`Self::tan`] for an angle up to 2^17, infinity or NaN, without its branch: loops
    /// vectorise. [`super::angles_are_within`] says whether a slice holds no other.
    #[inline(always)]
    fn tan_within(x: f32) -> f32 {
        tan::tan_within::<Self>(x)
    }

    /// As [`super::asin`].
    #[inline(always)]
    fn asin(x: f32) -> f32 {
        arc::asin::<Self>(x)
    }

    /// As [`super::acos`].
    #[inline(always)]
    fn acos(x: f32) -> f32 {
        arc::acos::<Self>(x)
    }

    /// As [`super::atan`].
    #[inline(always)]
    fn atan(x: f32) -> f32 {
        arc::atan::<Self>(x)
    }

    /// As [`super::atan2`].
    #[inline(always)]
    fn atan2(y: f32, x: f32) -> f32 {
        arc::atan2::<Self>(y, x)
    }

    /// As [`super::sinh`].
    #[inline(always)]
    fn sinh(x: f32) -> f32 {
        sinh_cosh::sinh::<Self>(x)
    }

    /// As [`super::cosh`].
    #[inline(always)]
    fn cosh(x: f32) -> f32 {
        sinh_cosh::cosh::<Self>(x)
    }

    /// As [`super::normal_pair`].
    #[inline(always)]
    fn normal_pair(word_0: u32, word_1: u32) -> (f32, f32) {
        philox::normal_pair::<Self>(word_0, word_1)
    }
}

/// The processor's own instructions.
///
/// For [`multiversion!`](crate::multiversion) alone, which compiles its bodies for processors with
/// a fused multiply-add. Anywhere else `mul_add` may become a call of the platform's `fmaf`, which
/// mingw's library rounds wrongly. On AArch64 a result may be wrong where the thread's underflow
/// flag is set; the macro then runs the body again with [`Exact`].
#[derive(Clone, Copy)]
pub struct Native;

impl FloatOps for Native {
    #[inline(always)]
    fn fma(a: f32, b: f32, c: f32) -> f32 {
        a.mul_add(b, c)
    }

    #[inline(always)]
    fn mul(a: f32, b: f32) -> f32 {
        a * b
    }
}

/// The exact result on any processor, in f64 where the processor's own instruction may differ.
#[derive(Clone, Copy)]
pub struct Exact;

impl FloatOps for Exact {
    #[inline(always)]
    fn fma(a: f32, b: f32, c: f32) -> f32 {
        wide::fma(a, b, c)
    }

    /// x86 flushes as the specification says; other processors may flush before rounding.
    #[inline(always)]
    fn mul(a: f32, b: f32) -> f32 {
        if cfg!(all(target_arch = "x86_64", not(miri))) {
            a * b
        } else {
            wide::mul(a, b)
        }
    }
}
