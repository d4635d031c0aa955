// Push constants of optimizer/average, by `cargo xtask shaders` from its module.

#[repr(C)]
#[derive(Clone, Copy, Debug, bytemuck::Pod, bytemuck::Zeroable)]
pub struct Push {
    pub count: u32,
    pub row: u32,
    pub rows: u32,
}
