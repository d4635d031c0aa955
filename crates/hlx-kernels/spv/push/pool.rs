//! Push constants of the modules of pool.
#![cfg_attr(rustfmt, rustfmt_skip)]

#[repr(C)]
#[derive(Clone, Copy, Debug, bytemuck::Pod, bytemuck::Zeroable)]
pub struct Push {
    pub count: u32,
    pub input_height: u32,
    pub input_width: u32,
    pub output_height: u32,
    pub output_width: u32,
    pub kernel_height: u32,
    pub kernel_width: u32,
    pub stride_y: u32,
    pub stride_x: u32,
    pub padding_y: u32,
    pub padding_x: u32,
    pub dilation_y: u32,
    pub dilation_x: u32,
    pub divisor: f32,
}
pub use {Push as avg_backward, Push as avg_forward, Push as max_backward, Push as max_forward};
