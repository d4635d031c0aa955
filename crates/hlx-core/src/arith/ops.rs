//! The two operations in which processors differ, multiply-add and multiplication, as a type
//! parameter of everything that is computed from them.

use super::{
    arc, divide, exp_log, exp_log_variants, functions, pow, random, sin_cos, sinh_cosh, tan,
    tanh_erf, wide,
};

macro_rules! methods {
    ($($(#[$documentation:meta])* $name:ident($($x:ident),+) $module:ident;)+) => {$(
        $(#[$documentation])*
        #[inline(always)]
        fn $name($($x: f32),+) -> f32 {
            $module::$name::<Self>($($x),+)
        }
    )+};
}

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

    functions::for_each_function!(methods);

    /// The sine of an angle up to 2^17, infinity or NaN, without a branch: loops vectorise.
    /// [`super::angles_are_within`] says whether a slice holds no other; so for the next two.
    #[inline(always)]
    fn sin_within(x: f32) -> f32 {
        sin_cos::sin_within::<Self>(x)
    }

    /// The cosine of such an angle.
    #[inline(always)]
    fn cos_within(x: f32) -> f32 {
        sin_cos::cos_within::<Self>(x)
    }

    /// The tangent of such an angle.
    #[inline(always)]
    fn tan_within(x: f32) -> f32 {
        tan::tan_within::<Self>(x)
    }

    /// As [`super::normal_pair`].
    #[inline(always)]
    fn normal_pair(word_0: u32, word_1: u32) -> (f32, f32) {
        random::normal_pair::<Self>(word_0, word_1)
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
