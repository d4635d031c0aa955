// Push constants of attention/backward_key_value_cached_dropped, by `cargo xtask shaders` from its module.

#[repr(C)]
#[derive(Clone, Copy, Debug, bytemuck::Pod, bytemuck::Zeroable)]
pub struct Push {
    pub heads: u32,
    pub heads_a_sequence: u32,
    pub time: u32,
    pub scale: f32,
    pub first_head: u32,
    pub seed_low: u32,
    pub seed_high: u32,
    pub purpose: u32,
    pub p: f32,
    pub factor: f32,
}
