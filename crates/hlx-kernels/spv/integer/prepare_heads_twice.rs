// Push constants of integer/prepare_heads_twice, by `cargo xtask shaders` from its module.

#[repr(C)]
#[derive(Clone, Copy, Debug, bytemuck::Pod, bytemuck::Zeroable)]
pub struct Push {
    pub rows: u32,
    pub heads: u32,
    pub positions: u32,
    pub k: u32,
    pub words: u32,
    pub first: u32,
    pub batch_stride: u32,
    pub position_stride: u32,
    pub head_stride: u32,
}
