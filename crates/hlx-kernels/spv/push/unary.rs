//! Push constants of the modules of unary.
#![cfg_attr(rustfmt, rustfmt_skip)]

#[repr(C)]
#[derive(Clone, Copy, Debug, bytemuck::Pod, bytemuck::Zeroable)]
pub struct Push {
    pub count: u32,
    pub parameters: [u32; 2],
    pub offsets: [u32; 1],
    pub extents: [u32; 7],
    pub strides: [u32; 8],
}
pub use {Push as abs, Push as acos, Push as asin, Push as atan, Push as bitwise_not, Push as ceil,
    Push as clamp, Push as cos, Push as cosh, Push as elu, Push as erf, Push as exp, Push as exp2,
    Push as expm1, Push as floor, Push as gelu, Push as gelu_tanh, Push as hardswish, Push as isfinite,
    Push as isnan, Push as leaky_relu, Push as log, Push as log10, Push as log1p, Push as log2,
    Push as logical_not, Push as mish, Push as neg, Push as reciprocal, Push as relu, Push as round,
    Push as rsqrt, Push as sigmoid, Push as sign, Push as silu, Push as sin, Push as sinh,
    Push as softplus, Push as sqrt, Push as square, Push as tan, Push as tanh, Push as trunc};
