// Push constants of attention/append_integers, by `cargo xtask shaders` from its module.

#[repr(C)]
#[derive(Clone, Copy, Debug, bytemuck::Pod, bytemuck::Zeroable)]
pub struct Push {
    pub rows: u32,
    pub time: u32,
    pub heads: u32,
    pub key_heads: u32,
    pub width: u32,
    pub capacity: u32,
    pub pairs: u32,
    pub q_first: u32,
    pub q_row: u32,
    pub k_first: u32,
    pub k_row: u32,
    pub v_first: u32,
    pub v_row: u32,
    pub eps: f32,
    pub scale: f32,
}
