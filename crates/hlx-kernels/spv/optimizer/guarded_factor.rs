// Push constants of optimizer/guarded_factor, by `cargo xtask shaders` from its module.

#[repr(C)]
#[derive(Clone, Copy, Debug, bytemuck::Pod, bytemuck::Zeroable)]
pub struct Push {
    pub max_norm: f32,
    pub runs: u32,
    pub run: u32,
    pub stride: u32,
}
