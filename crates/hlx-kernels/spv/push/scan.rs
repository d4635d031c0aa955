//! Push constants of the modules of scan.
#![cfg_attr(rustfmt, rustfmt_skip)]

#[repr(C)]
#[derive(Clone, Copy, Debug, bytemuck::Pod, bytemuck::Zeroable)]
pub struct Push {
    pub items: u32,
    pub lines: u32,
    pub pieces: u32,
    pub piece: u32,
    pub n: u32,
    pub inner: u32,
    pub axis_stride: u32,
    pub first: u32,
    pub n_dims: u32,
    pub extents: [u32; 8],
    pub strides: [u32; 8],
}
pub use {Push as across, Push as along};
