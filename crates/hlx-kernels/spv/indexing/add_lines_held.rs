// Push constants of indexing/add_lines_held, by `cargo xtask shaders` from its module.

#[repr(C)]
#[derive(Clone, Copy, Debug, bytemuck::Pod, bytemuck::Zeroable)]
pub struct Push {
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
