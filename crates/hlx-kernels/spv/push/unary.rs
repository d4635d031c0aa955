//! Push constants of the modules of unary.

blocks! {
    abs, acos, asin, atan, bitwise_not, ceil, clamp, cos, cosh, elu, erf, exp, exp2, expm1, floor, gelu,
    gelu_tanh, hardswish, isfinite, isnan, leaky_relu, log, log10, log1p, log2, logical_not, mish, neg,
    reciprocal, relu, round, rsqrt, sigmoid, sign, silu, sin, sinh, softplus, sqrt, square, tan, tanh, trunc {
        count: u32, parameters: [u32; 2], offsets: [u32; 1], extents: [u32; 7], strides: [u32; 8]
    }
}
