// Push constants of attention/forward_32, by `cargo xtask shaders` from its module.

#[repr(C)]
#[derive(Clone, Copy, Debug, bytemuck::Pod, bytemuck::Zeroable)]
pub struct Push {
    pub heads: u32,
    pub heads_a_sequence: u32,
    pub time: u32,
    pub scale: f32,
}
