//! The unary operations, written by `cargo xtask shaders` from
//! `shaders/include/unary.txt`.

shader!(unary::{
    neg, abs, square, sign, relu, leaky_relu, clamp, floor, ceil, round, trunc, isnan, isfinite,
    logical_not, bitwise_not, reciprocal, sqrt, rsqrt, exp, log, sin, cos, tanh, sigmoid, gelu,
    gelu_tanh, silu, softplus, mish, hardswish, exp2, expm1, log2, log10, log1p, tan, asin, acos,
    atan, sinh, cosh, erf, elu,
});

/// Calls `each!` with what comes behind it and a line for every [`Unary`](super::Unary): its documentation, name,
/// variant, whether the result is a truth value, and its formulas by compute type.
#[doc(hidden)] // For the methods of tensors in hlx-autograd.
#[macro_export]
macro_rules! for_each_unary {
    ($each:ident $($head:tt)*) => {
        $each! {
            $($head)*
            /// Computes -x: `torch.neg`.
            neg Neg false [neg_f32] [neg_int] [neg_int];
            /// Computes the magnitude: `torch.abs`.
            abs Abs false [abs_f32] [abs_i32] [abs_u32];
            /// Computes x x: `torch.square`.
            square Square false [square_f32] [square_int] [square_int];
            /// Computes -1, 0 or 1 by the sign, 0 of NaN: `torch.sign`.
            sign Sign false [sign_f32] [sign_i32] [sign_u32];
            /// Computes max(x, 0): `torch.relu`.
            relu ReLU false [relu_f32] [relu_i32] [relu_u32];
            /// Computes x, and x times the first parameter from zero down: `torch.nn.functional.leaky_relu`.
            leaky_relu LeakyReLU false [leaky_relu_f32 with] [] [];
            /// Computes x within the two parameters: `torch.clamp`.
            clamp Clamp false [clamp_f32 with] [clamp_i32 with] [clamp_u32 with];
            /// Computes the largest whole number up to x: `torch.floor`.
            floor Floor false [floor_f32] [floor_int] [floor_int];
            /// Computes the least whole number from x on: `torch.ceil`.
            ceil Ceil false [ceil_f32] [ceil_int] [ceil_int];
            /// Computes the nearest whole number, ties to even: `torch.round`.
            round Round false [round_f32] [round_int] [round_int];
            /// Computes x without its fraction: `torch.trunc`.
            trunc Trunc false [trunc_f32] [trunc_int] [trunc_int];
            /// Tells whether x is NaN: `torch.isnan`.
            isnan Isnan true [isnan_f32] [isnan_int] [isnan_int];
            /// Tells whether x is neither infinite nor NaN: `torch.isfinite`.
            isfinite Isfinite true [isfinite_f32] [isfinite_int] [isfinite_int];
            /// Tells whether x is 0: `torch.logical_not`.
            logical_not LogicalNot true [logical_not_f32] [logical_not_int] [logical_not_int];
            /// Computes x with every bit changed: `torch.bitwise_not`.
            bitwise_not BitwiseNot false [] [bitwise_not_int] [bitwise_not_int];
            /// Computes 1 / x: `torch.reciprocal`.
            reciprocal Reciprocal false [reciprocal_f32] [] [];
            /// Computes the square root: `torch.sqrt`.
            sqrt Sqrt false [sqrt_f32] [] [];
            /// Computes 1 / sqrt(x): `torch.rsqrt`.
            rsqrt Rsqrt false [rsqrt_f32] [] [];
            /// Computes e^x: `torch.exp`.
            exp Exp false [exp_f32] [] [];
            /// Computes the natural logarithm: `torch.log`.
            log Log false [log_f32] [] [];
            /// Computes the sine: `torch.sin`.
            sin Sin false [sin_f32] [] [];
            /// Computes the cosine: `torch.cos`.
            cos Cos false [cos_f32] [] [];
            /// Computes the hyperbolic tangent: `torch.tanh`.
            tanh Tanh false [tanh_f32] [] [];
            /// Computes 1 / (1 + exp(-x)): `torch.sigmoid`.
            sigmoid Sigmoid false [sigmoid_f32] [] [];
            /// Computes x Phi(x) by the error function: `torch.nn.functional.gelu`.
            gelu GELU false [gelu_f32] [] [];
            /// Computes GELU's approximation by tanh: `gelu(approximate="tanh")`.
            gelu_tanh GELUTanh false [gelu_tanh_f32] [] [];
            /// Computes x sigmoid(x): `torch.nn.functional.silu`.
            silu SiLU false [silu_f32] [] [];
            /// Computes log(1 + exp(x)), and x above 20: `torch.nn.functional.softplus`.
            softplus Softplus false [softplus_f32] [] [];
            /// Computes x tanh(softplus(x)): `torch.nn.functional.mish`.
            mish Mish false [mish_f32] [] [];
            /// Computes x clamp(x + 3, 0, 6) / 6: `torch.nn.functional.hardswish`.
            hardswish Hardswish false [hardswish_f32] [] [];
            /// Computes 2^x: `torch.exp2`.
            exp2 Exp2 false [exp2_f32] [] [];
            /// Computes e^x - 1: `torch.expm1`.
            expm1 Expm1 false [expm1_f32] [] [];
            /// Computes the logarithm to base 2: `torch.log2`.
            log2 Log2 false [log2_f32] [] [];
            /// Computes the logarithm to base 10: `torch.log10`.
            log10 Log10 false [log10_f32] [] [];
            /// Computes log(1 + x): `torch.log1p`.
            log1p Log1p false [log1p_f32] [] [];
            /// Computes the tangent: `torch.tan`.
            tan Tan false [tan_f32] [] [];
            /// Computes the inverse sine: `torch.asin`.
            asin Asin false [asin_f32] [] [];
            /// Computes the inverse cosine: `torch.acos`.
            acos Acos false [acos_f32] [] [];
            /// Computes the inverse tangent: `torch.atan`.
            atan Atan false [atan_f32] [] [];
            /// Computes the hyperbolic sine: `torch.sinh`.
            sinh Sinh false [sinh_f32] [] [];
            /// Computes the hyperbolic cosine: `torch.cosh`.
            cosh Cosh false [cosh_f32] [] [];
            /// Computes the error function: `torch.erf`.
            erf Erf false [erf_f32] [] [];
            /// Computes x, and e^x - 1 times the first parameter from zero down: `torch.nn.functional.elu`.
            elu ELU false [elu_f32 with] [] [];
        }
    };
}
