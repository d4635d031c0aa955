//! pow: the logarithm as an unevaluated sum of two floats, then `2^p`.

use super::constants::*;
use super::exp_log::log_split;
use super::exp_log_variants::exp2_core;
use super::{FloatOps, INFINITY, MIN_NORMAL, SIGN, abs, flush};

/// `log2(a)` for a normal `a`, as `high + low` to about 2^-36 of itself.
///
/// `a = 2^e m`, `s = (m - 1) / (m + 1)`, `log2(m) = s (K + K3 s^2 + s^4 Q(s^2))`; what rounding
/// loses of each but the last term is carried along (fma gives a product's error, Dekker's sum
/// that of a sum).
#[inline(always)]
fn log2_pair<A: FloatOps>(a: f32) -> (f32, f32) {
    let (exponent, m) = log_split(a.to_bits());
    let (e, f) = (exponent as f32, m - 1.0);
    let d = m + 1.0;
    let d_low = m - (d - 1.0);
    let y = A::fma(A::fma(d, POW_RECIP_2, POW_RECIP_1), d, POW_RECIP_0);
    let error = A::fma(-d, y, 1.0);
    let y = A::fma(y, A::fma(error, error, error), y);
    let s = A::mul(f, y);
    let s_low = A::mul(A::fma(-s, d_low, A::fma(-s, d, f)), y);

    let z = A::mul(s, s);
    let z_low = A::fma(s + s, s_low, A::fma(s, s, -z));
    let q = A::fma(A::fma(POW_LOG_2, z, POW_LOG_1), z, POW_LOG_0);
    let t = A::fma(z, q, POW_K3_1);
    let u = POW_K3_0 + t;
    let u_low = t - (u - POW_K3_0);
    let v = A::mul(z, u);
    let v_low = A::fma(z_low, u, A::fma(z, u_low, A::fma(z, u, -v)));
    let w = POW_K_0 + v;
    let w_low = (v - (w - POW_K_0)) + (POW_K_1 + v_low);
    let log = A::mul(s, w);
    let log_low = A::fma(s_low, w, A::fma(s, w_low, A::fma(s, w, -log)));

    let high = e + log;
    (high, (log - (high - e)) + log_low)
}

/// `a^y` for a normal `a` and a finite `y`: +0 and +infinity where it is too small or too large.
#[inline(always)]
fn pow_core<A: FloatOps>(a: f32, y: f32) -> u32 {
    let (high, low) = log2_pair::<A>(a);
    let p = A::mul(y, high);
    let p_low = A::fma(y, low, A::fma(y, high, -p));
    let shifted = p + ROUND_MAGIC;
    let n = shifted.to_bits().wrapping_sub(ROUND_MAGIC.to_bits());
    let r = (p - (shifted - ROUND_MAGIC)) + p_low;
    let bits = exp2_core::<A>(r).to_bits().wrapping_add(n << 23);
    let bits = if bits < MIN_NORMAL { 0 } else { bits };
    let bits = if p > POW_HIGH || bits > INFINITY {
        INFINITY
    } else {
        bits
    };
    if p < POW_LOW { 0 } else { bits }
}

/// Whether a `y` that is not NaN is whole, and whether it is odd; infinity is whole and even.
#[inline(always)]
fn whole_and_odd(y: f32) -> (bool, bool) {
    let bits = y.to_bits();
    let exponent = (bits >> 23 & 255) as i32 - 127;
    let significand = bits & 0x007f_ffff | MIN_NORMAL;
    let places = (23 - exponent).clamp(0, 24) as u32;
    let whole = significand & ((1 << places) - 1) == 0;
    (
        whole,
        whole && exponent <= 23 && significand >> places & 1 == 1,
    )
}

/// `x^y`, with the special values of C's `powf`.
#[inline(always)]
pub(super) fn pow<A: FloatOps>(x: f32, y: f32) -> f32 {
    let (x, y) = (flush(x), flush(y));
    let a = abs(x);
    let (whole, odd) = whole_and_odd(y);
    let grows = y > 0.0;
    let bits = pow_core::<A>(a, y);
    let bits = if a == 0.0 {
        if grows { 0 } else { INFINITY }
    } else {
        bits
    };
    let bits = if a == f32::INFINITY {
        if grows { INFINITY } else { 0 }
    } else {
        bits
    };
    let bits = if a == 1.0 { 1.0_f32.to_bits() } else { bits };
    let sign = if odd { x.to_bits() & SIGN } else { 0 };

    let invalid = x < 0.0 && !whole && a < f32::INFINITY;
    let invalid = invalid || x.is_nan() || y.is_nan();
    let result = f32::from_bits(if invalid {
        f32::NAN.to_bits()
    } else {
        bits | sign
    });
    if x == 1.0 || y == 0.0 { 1.0 } else { result }
}
