//! The unary operations, written by `cargo xtask shaders` from
//! `shaders/include/unary.txt`.

shader!(neg_shader, unary::neg);
shader!(abs_shader, unary::abs);
shader!(square_shader, unary::square);
shader!(sign_shader, unary::sign);
shader!(relu_shader, unary::relu);
shader!(leaky_relu_shader, unary::leaky_relu);
shader!(clamp_shader, unary::clamp);
shader!(floor_shader, unary::floor);
shader!(ceil_shader, unary::ceil);
shader!(round_shader, unary::round);
shader!(trunc_shader, unary::trunc);
shader!(isnan_shader, unary::isnan);
shader!(isfinite_shader, unary::isfinite);
shader!(logical_not_shader, unary::logical_not);
shader!(bitwise_not_shader, unary::bitwise_not);
shader!(reciprocal_shader, unary::reciprocal);
shader!(sqrt_shader, unary::sqrt);
shader!(rsqrt_shader, unary::rsqrt);
shader!(exp_shader, unary::exp);
shader!(log_shader, unary::log);
shader!(sin_shader, unary::sin);
shader!(cos_shader, unary::cos);
shader!(tanh_shader, unary::tanh);
shader!(sigmoid_shader, unary::sigmoid);
shader!(gelu_shader, unary::gelu);
shader!(gelu_tanh_shader, unary::gelu_tanh);
shader!(silu_shader, unary::silu);
shader!(softplus_shader, unary::softplus);
shader!(mish_shader, unary::mish);
shader!(hardswish_shader, unary::hardswish);
shader!(exp2_shader, unary::exp2);
shader!(expm1_shader, unary::expm1);
shader!(log2_shader, unary::log2);
shader!(log10_shader, unary::log10);
shader!(log1p_shader, unary::log1p);
shader!(tan_shader, unary::tan);
shader!(asin_shader, unary::asin);
shader!(acos_shader, unary::acos);
shader!(atan_shader, unary::atan);
shader!(sinh_shader, unary::sinh);
shader!(cosh_shader, unary::cosh);
shader!(erf_shader, unary::erf);
shader!(elu_shader, unary::elu);

/// Calls `each!` with a line for every [`Unary`](super::Unary): its documentation, name,
/// variant and shader, whether the result is a truth value, and its formulas by compute type.
#[doc(hidden)] // For the methods of tensors in hlx-autograd.
#[macro_export]
macro_rules! for_each_unary {
    ($each:ident) => {
        $each! {
            /// Computes -x: `torch.neg`.
            neg Neg neg_shader false [neg_f32] [neg_int] [neg_int];
            /// Computes the magnitude: `torch.abs`.
            abs Abs abs_shader false [abs_f32] [abs_i32] [abs_u32];
            /// Computes x x: `torch.square`.
            square Square square_shader false [square_f32] [square_int] [square_int];
            /// Computes -1, 0 or 1 by the sign, 0 of NaN: `torch.sign`.
            sign Sign sign_shader false [sign_f32] [sign_i32] [sign_u32];
            /// Computes max(x, 0): `torch.relu`.
            relu ReLU relu_shader false [relu_f32] [relu_i32] [relu_u32];
            /// Computes x, and x times the first parameter from zero down: `torch.nn.functional.leaky_relu`.
            leaky_relu LeakyReLU leaky_relu_shader false [leaky_relu_f32 with] [] [];
            /// Computes x within the two parameters: `torch.clamp`.
            clamp Clamp clamp_shader false [clamp_f32 with] [clamp_i32 with] [clamp_u32 with];
            /// Computes the largest whole number up to x: `torch.floor`.
            floor Floor floor_shader false [floor_f32] [floor_int] [floor_int];
            /// Computes the least whole number from x on: `torch.ceil`.
            ceil Ceil ceil_shader false [ceil_f32] [ceil_int] [ceil_int];
            /// Computes the nearest whole number, ties to even: `torch.round`.
            round Round round_shader false [round_f32] [round_int] [round_int];
            /// Computes x without its fraction: `torch.trunc`.
            trunc Trunc trunc_shader false [trunc_f32] [trunc_int] [trunc_int];
            /// Tells whether x is NaN: `torch.isnan`.
            isnan Isnan isnan_shader true [isnan_f32] [isnan_int] [isnan_int];
            /// Tells whether x is neither infinite nor NaN: `torch.isfinite`.
            isfinite Isfinite isfinite_shader true [isfinite_f32] [isfinite_int] [isfinite_int];
            /// Tells whether x is 0: `torch.logical_not`.
            logical_not LogicalNot logical_not_shader true [logical_not_f32] [logical_not_int] [logical_not_int];
            /// Computes x with every bit changed: `torch.bitwise_not`.
            bitwise_not BitwiseNot bitwise_not_shader false [] [bitwise_not_int] [bitwise_not_int];
            /// Computes 1 / x: `torch.reciprocal`.
            reciprocal Reciprocal reciprocal_shader false [reciprocal_f32] [] [];
            /// Computes the square root: `torch.sqrt`.
            sqrt Sqrt sqrt_shader false [sqrt_f32] [] [];
            /// Computes 1 / sqrt(x): `torch.rsqrt`.
            rsqrt Rsqrt rsqrt_shader false [rsqrt_f32] [] [];
            /// Computes e^x: `torch.exp`.
            exp Exp exp_shader false [exp_f32] [] [];
            /// Computes the natural logarithm: `torch.log`.
            log Log log_shader false [log_f32] [] [];
            /// Computes the sine: `torch.sin`.
            sin Sin sin_shader false [sin_f32] [] [];
            /// Computes the cosine: `torch.cos`.
            cos Cos cos_shader false [cos_f32] [] [];
            /// Computes the hyperbolic tangent: `torch.tanh`.
            tanh Tanh tanh_shader false [tanh_f32] [] [];
            /// Computes 1 / (1 + exp(-x)): `torch.sigmoid`.
            sigmoid Sigmoid sigmoid_shader false [sigmoid_f32] [] [];
            /// Computes x Phi(x) by the error function: `torch.nn.functional.gelu`.
            gelu GELU gelu_shader false [gelu_f32] [] [];
            /// Computes GELU's approximation by tanh: `gelu(approximate="tanh")`.
            gelu_tanh GELUTanh gelu_tanh_shader false [gelu_tanh_f32] [] [];
            /// Computes x sigmoid(x): `torch.nn.functional.silu`.
            silu SiLU silu_shader false [silu_f32] [] [];
            /// Computes log(1 + exp(x)), and x above 20: `torch.nn.functional.softplus`.
            softplus Softplus softplus_shader false [softplus_f32] [] [];
            /// Computes x tanh(softplus(x)): `torch.nn.functional.mish`.
            mish Mish mish_shader false [mish_f32] [] [];
            /// Computes x clamp(x + 3, 0, 6) / 6: `torch.nn.functional.hardswish`.
            hardswish Hardswish hardswish_shader false [hardswish_f32] [] [];
            /// Computes 2^x: `torch.exp2`.
            exp2 Exp2 exp2_shader false [exp2_f32] [] [];
            /// Computes e^x - 1: `torch.expm1`.
            expm1 Expm1 expm1_shader false [expm1_f32] [] [];
            /// Computes the logarithm to base 2: `torch.log2`.
            log2 Log2 log2_shader false [log2_f32] [] [];
            /// Computes the logarithm to base 10: `torch.log10`.
            log10 Log10 log10_shader false [log10_f32] [] [];
            /// Computes log(1 + x): `torch.log1p`.
            log1p Log1p log1p_shader false [log1p_f32] [] [];
            /// Computes the tangent: `torch.tan`.
            tan Tan tan_shader false [tan_f32] [] [];
            /// Computes the inverse sine: `torch.asin`.
            asin Asin asin_shader false [asin_f32] [] [];
            /// Computes the inverse cosine: `torch.acos`.
            acos Acos acos_shader false [acos_f32] [] [];
            /// Computes the inverse tangent: `torch.atan`.
            atan Atan atan_shader false [atan_f32] [] [];
            /// Computes the hyperbolic sine: `torch.sinh`.
            sinh Sinh sinh_shader false [sinh_f32] [] [];
            /// Computes the hyperbolic cosine: `torch.cosh`.
            cosh Cosh cosh_shader false [cosh_f32] [] [];
            /// Computes the error function: `torch.erf`.
            erf Erf erf_shader false [erf_f32] [] [];
            /// Computes x, and e^x - 1 times the first parameter from zero down: `torch.nn.functional.elu`.
            elu ELU elu_shader false [elu_f32 with] [] [];
        }
    };
}
