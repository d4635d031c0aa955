//! Push constants of the modules of reduce_axes.
#![cfg_attr(rustfmt, rustfmt_skip)]

#[repr(C)]
#[derive(Clone, Copy, Debug, bytemuck::Pod, bytemuck::Zeroable)]
pub struct PackBool {
    pub count: u32,
}
pub use PackBool as pack_bool;

#[repr(C)]
#[derive(Clone, Copy, Debug, bytemuck::Pod, bytemuck::Zeroable)]
pub struct Places {
    pub items: u32,
    pub kept: u32,
    pub pieces: u32,
    pub terms: u32,
    pub first: u32,
    pub origin: u32,
    pub n_kept: u32,
    pub n_dims: u32,
    pub magic: u32,
    pub shift: u32,
    pub extents: [u32; 8],
    pub strides: [u32; 8],
}
pub use {Places as places, Places as words};
