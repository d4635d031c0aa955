// Push constants of experts/table, by `cargo xtask shaders` from its module.

#[repr(C)]
#[derive(Clone, Copy, Debug, bytemuck::Pod, bytemuck::Zeroable)]
pub struct Push {
    pub n: u32,
    pub choices: u32,
}
