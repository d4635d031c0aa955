//! The list of the functions, from which [`FloatOps`](super::FloatOps) has its methods and the host
//! its free functions.

/// Calls `each!` with a line for every function: its documentation, name, arguments, and the module
/// of its formula.
macro_rules! for_each_function {
    ($each:ident) => {
        $each! {
            /// `1 / sqrt(x)`; infinite at both zeros, NaN below zero. Error at most 0.75 ulp.
            rsqrt(x) divide;
            /// `exp(x)`; infinite above 88.72283, +0 below -87.33654. Error at most 1.02 ulp.
            exp(x) exp_log;
            /// The natural logarithm; -inf at both zeros, NaN below zero. Error at most 0.9 ulp.
            log(x) exp_log;
            /// `2^x`; infinite from 128 on, +0 below -126. Exact for a whole `x`. Error at most 0.85 ulp.
            exp2(x) exp_log_variants;
            /// `exp(x) - 1`; infinite above 88.72283, keeps the sign of a zero. Error at most 1.5 ulp.
            expm1(x) exp_log_variants;
            /// The logarithm to base 2; -inf at both zeros, NaN below zero. Exact for a power of two.
            /// Error at most 1.1 ulp.
            log2(x) exp_log_variants;
            /// The logarithm to base 10; -inf at both zeros, NaN below zero. Error at most 1 ulp.
            log10(x) exp_log_variants;
            /// `log(1 + x)`; -inf at -1, NaN below, keeps the sign of a zero. Error at most 1.5 ulp.
            log1p(x) exp_log_variants;
            /// `x^y`, with the special values of C's `powf`. Error at most 0.95 ulp.
            pow(x, y) pow;
            /// `1 / (1 + exp(-x))`, without overflow; +0 below -87.33654. Error at most 2 ulp.
            sigmoid(x) exp_log;
            /// The hyperbolic tangent; odd, zeros keep their sign. Error at most 2 ulp.
            tanh(x) tanh_erf;
            /// The error function; odd, zeros keep their sign. Error at most 1.2 ulp.
            erf(x) tanh_erf;
            /// The sine; NaN for infinities. Error at most 1.6 ulp, for angles of any size.
            sin(x) sin_cos;
            /// The cosine; NaN for infinities. Error at most 1.6 ulp, for angles of any size.
            cos(x) sin_cos;
            /// The tangent; NaN for infinities, keeps the sign of a zero. Error at most 2 ulp, for angles of
            /// any size.
            tan(x) tan;
            /// The arc sine; NaN beyond 1, keeps the sign of a zero. Error at most 1.25 ulp.
            asin(x) arc;
            /// The arc cosine; NaN beyond 1. Error at most 1.25 ulp.
            acos(x) arc;
            /// The arc tangent; keeps the sign of a zero. Error at most 1.25 ulp.
            atan(x) arc;
            /// The angle of the point `(x, y)`, with the special values of C's `atan2f`. Error at most 1.6 ulp.
            atan2(y, x) arc;
            /// The hyperbolic sine; infinite beyond 89.415985, keeps the sign of a zero. Error at most
            /// 1.65 ulp.
            sinh(x) sinh_cosh;
            /// The hyperbolic cosine; infinite beyond 89.415985. Error at most 1.65 ulp.
            cosh(x) sinh_cosh;
        }
    };
}
pub(super) use for_each_function;
