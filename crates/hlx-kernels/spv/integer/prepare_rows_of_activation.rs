// Push constants of integer/prepare_rows_of_activation, by `cargo xtask shaders` from its module.

#[repr(C)]
#[derive(Clone, Copy, Debug, bytemuck::Pod, bytemuck::Zeroable)]
pub struct Push {
    pub rows: u32,
    pub k: u32,
    pub words: u32,
    pub matrix_rows: u32,
    pub stride: u32,
}
