// Push constants of rope/rope, by `cargo xtask shaders` from its module.

#[repr(C)]
#[derive(Clone, Copy, Debug, bytemuck::Pod, bytemuck::Zeroable)]
pub struct Push {
    pub rows: u32,
    pub heads: u32,
    pub width: u32,
    pub pairs: u32,
    pub inverse: u32,
    pub scale: f32,
}
