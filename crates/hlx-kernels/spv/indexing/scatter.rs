// Push constants of indexing/scatter, by `cargo xtask shaders` from its module.

#[repr(C)]
#[derive(Clone, Copy, Debug, bytemuck::Pod, bytemuck::Zeroable)]
pub struct Push {
    pub count: u32,
    pub first: u32,
    pub n_dims: u32,
    pub extents: [u32; 8],
    pub strides: [u32; 8],
}
