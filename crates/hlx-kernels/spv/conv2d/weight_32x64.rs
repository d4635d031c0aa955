// Push constants of conv2d/weight_32x64, by `cargo xtask shaders` from its module.

#[repr(C)]
#[derive(Clone, Copy, Debug, bytemuck::Pod, bytemuck::Zeroable)]
pub struct Push {
    pub m: u32,
    pub n: u32,
    pub k: u32,
    pub groups: u32,
    pub column_first: u32,
    pub z_first: u32,
    pub pixels: u32,
    pub pixels_magic: u32,
    pub pixels_shift: u32,
    pub width: u32,
    pub width_magic: u32,
    pub width_shift: u32,
    pub taps: u32,
    pub taps_magic: u32,
    pub taps_shift: u32,
    pub taps_width: u32,
    pub taps_width_magic: u32,
    pub taps_width_shift: u32,
    pub image_height: u32,
    pub image_width: u32,
    pub image_channels: u32,
    pub scale_y: u32,
    pub scale_x: u32,
    pub first_y: u32,
    pub first_x: u32,
    pub step_y: u32,
    pub step_x: u32,
}
