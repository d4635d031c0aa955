// Push constants of conv2d/count_pixels, by `cargo xtask shaders` from its module.

#[repr(C)]
#[derive(Clone, Copy, Debug, bytemuck::Pod, bytemuck::Zeroable)]
pub struct Push {
    pub planes: u32,
    pub channels: u32,
    pub pixels: u32,
}
