//! Push constants of the modules of rope.
#![cfg_attr(rustfmt, rustfmt_skip)]

#[repr(C)]
#[derive(Clone, Copy, Debug, bytemuck::Pod, bytemuck::Zeroable)]
pub struct Push {
    pub rows: u32,
    pub heads: u32,
    pub width: u32,
    pub pairs: u32,
    pub inverse: u32,
    pub scale: f32,
}
pub use Push as rope;
