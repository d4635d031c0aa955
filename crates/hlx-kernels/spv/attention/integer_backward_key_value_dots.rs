// Push constants of attention/integer_backward_key_value_dots, by `cargo xtask shaders` from its module.

#[repr(C)]
#[derive(Clone, Copy, Debug, bytemuck::Pod, bytemuck::Zeroable)]
pub struct Push {
    pub batch: u32,
    pub queries: u32,
    pub keys: u32,
    pub heads: u32,
    pub group: u32,
    pub q_first: u32,
    pub q_batch: u32,
    pub q_position: u32,
    pub q_head: u32,
    pub k_first: u32,
    pub k_batch: u32,
    pub k_position: u32,
    pub k_head: u32,
    pub v_first: u32,
    pub v_batch: u32,
    pub v_position: u32,
    pub v_head: u32,
    pub scale: f32,
    pub cap: f32,
    pub inverse_cap: f32,
    pub seed_low: u32,
    pub seed_high: u32,
    pub purpose: u32,
    pub p: f32,
    pub factor: f32,
}
