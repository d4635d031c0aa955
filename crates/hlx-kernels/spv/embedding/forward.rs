// Push constants of embedding/forward, by `cargo xtask shaders` from its module.

#[repr(C)]
#[derive(Clone, Copy, Debug, bytemuck::Pod, bytemuck::Zeroable)]
pub struct Push {
    pub n: u32,
    pub vocabulary: u32,
    pub width: u32,
}
