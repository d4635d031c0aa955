//! Push constants of the modules of elementwise.
#![cfg_attr(rustfmt, rustfmt_skip)]

#[repr(C)]
#[derive(Clone, Copy, Debug, bytemuck::Pod, bytemuck::Zeroable)]
pub struct Push {
    pub count: u32,
    pub scalar: f32,
}
pub use {Push as add_assign, Push as binary, Push as scale, Push as scale_by};
