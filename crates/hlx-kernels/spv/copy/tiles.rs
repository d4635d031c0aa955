// Push constants of copy/tiles, by `cargo xtask shaders` from its module.

#[repr(C)]
#[derive(Clone, Copy, Debug, bytemuck::Pod, bytemuck::Zeroable)]
pub struct Push {
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
