// Push constants of attention/key_ranges, by `cargo xtask shaders` from its module.

#[repr(C)]
#[derive(Clone, Copy, Debug, bytemuck::Pod, bytemuck::Zeroable)]
pub struct Push {
    pub batch: u32,
    pub queries: u32,
    pub keys: u32,
    pub causal: u32,
    pub window: u32,
    pub has_documents: u32,
    pub has_lengths: u32,
    pub has_first_positions: u32,
}
