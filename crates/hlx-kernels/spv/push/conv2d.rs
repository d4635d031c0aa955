//! Push constants of the modules of conv2d.
#![cfg_attr(rustfmt, rustfmt_skip)]

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
    pub height: u32,
    pub runs: u32,
    pub sample_runs: u32,
    pub z_count: u32,
    pub piece_first: u32,
}
pub use {Push as count_pixels, Push as gradient_rows, Push as images_128x128, Push as images_32x64,
    Push as images_64x128, Push as images_64x64, Push as patch_rows, Push as prepare_patches,
    Push as prepare_terms, Push as weight_32x64, Push as weight_64x64};
