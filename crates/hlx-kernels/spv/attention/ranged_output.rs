// Push constants of attention/ranged_output, by `cargo xtask shaders` from its module.

#[repr(C)]
#[derive(Clone, Copy, Debug, bytemuck::Pod, bytemuck::Zeroable)]
pub struct Push {
    pub rows: u32,
    pub terms: u32,
    pub heads: u32,
    pub repeats: u32,
    pub column_group: u32,
    pub first_head: u32,
    pub n_heads: u32,
    pub columns_first: u32,
    pub columns_batch: u32,
    pub columns_position: u32,
    pub columns_head: u32,
    pub last_first: u32,
    pub scale: f32,
}
