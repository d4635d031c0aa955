// Push constants of fill/linspace, by `cargo xtask shaders` from its module.

#[repr(C)]
#[derive(Clone, Copy, Debug, bytemuck::Pod, bytemuck::Zeroable)]
pub struct Push {
    pub count: u32,
    pub first: u32,
    pub parameters: [u32; 6],
}
