// Push constants of indexing/chains_of_four, by `cargo xtask shaders` from its module.

#[repr(C)]
#[derive(Clone, Copy, Debug, bytemuck::Pod, bytemuck::Zeroable)]
pub struct Push {
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
