// Push constants of experts/weight_gradient, by `cargo xtask shaders` from its module.

#[repr(C)]
#[derive(Clone, Copy, Debug, bytemuck::Pod, bytemuck::Zeroable)]
pub struct Push {
    pub m: u32,
    pub n: u32,
    pub column_first: u32,
    pub rows: u32,
    pub first: u32,
}
