//! Push constants of the modules of sort.
#![cfg_attr(rustfmt, rustfmt_skip)]

#[repr(C)]
#[derive(Clone, Copy, Debug, bytemuck::Pod, bytemuck::Zeroable)]
pub struct Count {
    pub lines: u32,
    pub n: u32,
    pub blocks: u32,
    pub shift: u32,
    pub k: u32,
    pub inner: u32,
    pub axis_stride: u32,
    pub first: u32,
    pub n_dims: u32,
    pub extents: [u32; 8],
    pub strides: [u32; 8],
}
pub use {Count as count, Count as line, Count as rows, Count as scatter, Count as top};

#[repr(C)]
#[derive(Clone, Copy, Debug, bytemuck::Pod, bytemuck::Zeroable)]
pub struct Offsets {
    pub lines: u32,
    pub n: u32,
}
pub use Offsets as offsets;
