//! Push constants of the modules of copy.
#![cfg_attr(rustfmt, rustfmt_skip)]

#[repr(C)]
#[derive(Clone, Copy, Debug, bytemuck::Pod, bytemuck::Zeroable)]
pub struct Assign {
    pub count: u32,
    pub offsets: [u32; 2],
    pub extents: [u32; 7],
    pub strides: [u32; 16],
}
pub use Assign as assign;

#[repr(C)]
#[derive(Clone, Copy, Debug, bytemuck::Pod, bytemuck::Zeroable)]
pub struct AssignNarrow {
    pub words: u32,
    pub x_offset: u32,
    pub y_offset: u32,
    pub extents: [u32; 8],
    pub x_strides: [u32; 8],
    pub y_strides: [u32; 8],
}
pub use AssignNarrow as assign_narrow;

#[repr(C)]
#[derive(Clone, Copy, Debug, bytemuck::Pod, bytemuck::Zeroable)]
pub struct Convert {
    pub count: u32,
    pub parameters: [u32; 2],
    pub offsets: [u32; 1],
    pub extents: [u32; 7],
    pub strides: [u32; 8],
}
pub use Convert as convert;

#[repr(C)]
#[derive(Clone, Copy, Debug, bytemuck::Pod, bytemuck::Zeroable)]
pub struct Tiles {
    pub groups: u32,
    pub a: u32,
    pub b: u32,
    pub x_offset: u32,
    pub y_offset: u32,
    pub x_stride_b: u32,
    pub y_stride_a: u32,
    pub extents: [u32; 6],
    pub x_strides: [u32; 6],
    pub y_strides: [u32; 6],
}
pub use Tiles as tiles;
