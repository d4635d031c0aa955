//! Push constants of the modules of binary.
#![cfg_attr(rustfmt, rustfmt_skip)]

#[repr(C)]
#[derive(Clone, Copy, Debug, bytemuck::Pod, bytemuck::Zeroable)]
pub struct Push {
    pub count: u32,
    pub parameters: [u32; 2],
    pub offsets: [u32; 2],
    pub extents: [u32; 7],
    pub strides: [u32; 16],
}
pub use {Push as add, Push as atan2, Push as bitwise_and, Push as bitwise_or, Push as bitwise_xor,
    Push as div, Push as eq, Push as floor_divide, Push as ge, Push as gt, Push as le,
    Push as left_shift, Push as logical_and, Push as logical_or, Push as logical_xor, Push as lt,
    Push as maximum, Push as minimum, Push as mul, Push as ne, Push as pow, Push as remainder,
    Push as right_shift, Push as sub};
