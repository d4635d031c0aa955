// Push constants of peak/multiply_add, by `cargo xtask shaders` from its module.

#[repr(C)]
#[derive(Clone, Copy, Debug, bytemuck::Pod, bytemuck::Zeroable)]
pub struct Push {
    pub count: u32,
    pub steps: u32,
    pub factor: f32,
    pub term: f32,
}
