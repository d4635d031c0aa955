// Push constants of unary/erf, by `cargo xtask shaders` from its module.

#[repr(C)]
#[derive(Clone, Copy, Debug, bytemuck::Pod, bytemuck::Zeroable)]
pub struct Push {
    pub count: u32,
    pub parameters: [u32; 2],
    pub offsets: [u32; 1],
    pub extents: [u32; 7],
    pub strides: [u32; 8],
}
