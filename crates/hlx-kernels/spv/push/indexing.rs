//! Push constants of the modules of indexing.
#![cfg_attr(rustfmt, rustfmt_skip)]

#[repr(C)]
#[derive(Clone, Copy, Debug, bytemuck::Pod, bytemuck::Zeroable)]
pub struct AddLines {
    pub lines: u32,
    pub positions: u32,
    pub n: u32,
    pub inner: u32,
    pub n_dims: u32,
    pub extents: [u32; 4],
    pub first: [u32; 3],
    pub axis_strides: [u32; 3],
    pub strides: [u32; 12],
}
pub use {AddLines as add_lines, AddLines as add_lines_held};

#[repr(C)]
#[derive(Clone, Copy, Debug, bytemuck::Pod, bytemuck::Zeroable)]
pub struct Chains {
    pub count: u32,
    pub lines: u32,
    pub n: u32,
    pub inner: u32,
    pub axis_stride: u32,
    pub first: u32,
    pub n_dims: u32,
    pub extents: [u32; 8],
    pub strides: [u32; 8],
}
pub use {Chains as chains, Chains as chains_of_four, Chains as joins, Chains as starts};

#[repr(C)]
#[derive(Clone, Copy, Debug, bytemuck::Pod, bytemuck::Zeroable)]
pub struct Gather {
    pub count: u32,
    pub n: u32,
    pub axis_stride: u32,
    pub x_first: u32,
    pub index_first: u32,
    pub n_dims: u32,
    pub extents: [u32; 8],
    pub x_strides: [u32; 8],
    pub index_strides: [u32; 8],
}
pub use {Gather as gather, Gather as targets};

#[repr(C)]
#[derive(Clone, Copy, Debug, bytemuck::Pod, bytemuck::Zeroable)]
pub struct Scatter {
    pub count: u32,
    pub first: u32,
    pub n_dims: u32,
    pub extents: [u32; 8],
    pub strides: [u32; 8],
}
pub use Scatter as scatter;
