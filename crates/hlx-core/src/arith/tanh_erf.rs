//! tanh and erf.

use super::constants::*;
use super::exp_log::{exp_core, exp_reduce, expm1_core};
use super::{FloatOps, abs, flush, odd};

/// The hyperbolic tangent, `(1 - e) / (1 + e)` with `e = exp(-2|x|)`; odd, zeros keep their sign.
///
///
/// Numerator and denominator are each rounded once from `e = 2^n + 2^n (exp(r) - 1)`.
#[inline(always)]
pub(super) fn tanh<A: FloatOps>(x: f32) -> f32 {
    let size = abs(x);
    let capped = if size > TANH_HIGH { TANH_HIGH } else { size };
    let (r, n) = exp_reduce::<A>(-2.0 * capped);
    let scale = f32::from_bits(n.wrapping_add(127) << 23);
    let core = expm1_core::<A>(r);
    let numerator = A::fma(scale, -core, 1.0 - scale);
    let y = numerator / A::fma(scale, core, 1.0 + scale);
    let y = if size < TINY_ANGLE { size } else { y };
    flush(odd(y, x))
}

/// The error function: `x + x P(x^2)` below 7/8, `1 - exp(-x Q(x))` above; odd, zeros keep their
/// sign.
#[inline(always)]
pub(super) fn erf<A: FloatOps>(x: f32) -> f32 {
    let size = abs(x);
    let t = if size > ERF_HIGH { ERF_HIGH } else { size };

    let z = A::mul(t, t);
    let p = horner!(A, z, ERF_5, ERF_4, ERF_3, ERF_2, ERF_1, ERF_0);
    let near = A::fma(p, t, t);

    let q = horner!(A, t, ERFC_5, ERFC_4, ERFC_3, ERFC_2, ERFC_1, ERFC_0);
    let far = 1.0 - exp_core::<A>(A::mul(-t, q));

    let y = if size < ERF_SPLIT { near } else { far };
    odd(y, x)
}
