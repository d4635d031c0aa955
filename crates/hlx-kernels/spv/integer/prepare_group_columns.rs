// Push constants of integer/prepare_group_columns, by `cargo xtask shaders` from its module.

#[repr(C)]
#[derive(Clone, Copy, Debug, bytemuck::Pod, bytemuck::Zeroable)]
pub struct Push {
    pub rows: u32,
    pub columns: u32,
    pub groups: u32,
    pub words: u32,
}
