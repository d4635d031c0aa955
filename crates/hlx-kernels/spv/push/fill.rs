//! Push constants of the modules of fill.
#![cfg_attr(rustfmt, rustfmt_skip)]

#[repr(C)]
#[derive(Clone, Copy, Debug, bytemuck::Pod, bytemuck::Zeroable)]
pub struct Push {
    pub count: u32,
    pub first: u32,
    pub parameters: [u32; 6],
}
pub use {Push as band, Push as linspace, Push as ramp, Push as random};
