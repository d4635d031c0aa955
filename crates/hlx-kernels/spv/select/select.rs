// Push constants of select/select, by `cargo xtask shaders` from its module.

#[repr(C)]
#[derive(Clone, Copy, Debug, bytemuck::Pod, bytemuck::Zeroable)]
pub struct Push {
    pub count: u32,
    pub offsets: [u32; 3],
    pub extents: [u32; 6],
    pub strides: [u32; 21],
}
