// Push constants of integer/prepare_columns_of_rms_norm, by `cargo xtask shaders` from its module.

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
