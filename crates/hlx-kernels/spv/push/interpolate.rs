//! Push constants of the modules of interpolate.
#![cfg_attr(rustfmt, rustfmt_skip)]

#[repr(C)]
#[derive(Clone, Copy, Debug, bytemuck::Pod, bytemuck::Zeroable)]
pub struct Push {
    pub count: u32,
    pub input_height: u32,
    pub input_width: u32,
    pub output_height: u32,
    pub output_width: u32,
    pub scale_y: f32,
    pub scale_x: f32,
}
pub use {Push as bilinear_backward, Push as bilinear_forward, Push as nearest_backward,
    Push as nearest_forward};
