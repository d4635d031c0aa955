// Push constants of integer/column_tops_of_gated, by `cargo xtask shaders` from its module.

#[repr(C)]
#[derive(Clone, Copy, Debug, bytemuck::Pod, bytemuck::Zeroable)]
pub struct Push {
    pub outer: u32,
    pub k: u32,
    pub columns: u32,
    pub words: u32,
    pub row_words: u32,
    pub stride: u32,
}
