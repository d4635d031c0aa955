// Push constants of cross_entropy/backward, by `cargo xtask shaders` from its module.

#[repr(C)]
#[derive(Clone, Copy, Debug, bytemuck::Pod, bytemuck::Zeroable)]
pub struct Push {
    pub rows: u32,
    pub vocabulary: u32,
    pub hit: f32,
    pub spread: f32,
}
