// Push constants of indexing/gather, by `cargo xtask shaders` from its module.

#[repr(C)]
#[derive(Clone, Copy, Debug, bytemuck::Pod, bytemuck::Zeroable)]
pub struct Push {
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
