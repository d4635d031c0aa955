// Push constants of matmul/tile_64x64_short, by `cargo xtask shaders` from its module.

#[repr(C)]
#[derive(Clone, Copy, Debug, bytemuck::Pod, bytemuck::Zeroable)]
pub struct Push {
    pub m: u32,
    pub n: u32,
    pub k: u32,
    pub stride_a: u32,
    pub stride_b: u32,
    pub stride_c: u32,
    pub batch_first: u32,
    pub scalar: f32,
}
