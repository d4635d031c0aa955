// Push constants of copy/assign_narrow, by `cargo xtask shaders` from its module.

#[repr(C)]
#[derive(Clone, Copy, Debug, bytemuck::Pod, bytemuck::Zeroable)]
pub struct Push {
    pub words: u32,
    pub x_offset: u32,
    pub y_offset: u32,
    pub extents: [u32; 8],
    pub x_strides: [u32; 8],
    pub y_strides: [u32; 8],
}
