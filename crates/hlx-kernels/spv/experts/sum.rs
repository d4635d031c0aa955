// Push constants of experts/sum, by `cargo xtask shaders` from its module.

#[repr(C)]
#[derive(Clone, Copy, Debug, bytemuck::Pod, bytemuck::Zeroable)]
pub struct Push {
    pub tokens: u32,
    pub choices: u32,
    pub width: u32,
    pub rows: u32,
}
