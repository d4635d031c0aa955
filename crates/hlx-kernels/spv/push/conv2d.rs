//! Push constants of the modules of conv2d.

blocks! {
    count_pixels, gradient_rows, images_128x128, images_32x64, images_64x128, images_64x64, patch_rows,
    prepare_patches, prepare_terms, weight_32x64, weight_64x64 {
        m: u32, n: u32, k: u32, groups: u32, column_first: u32, z_first: u32, pixels: u32, pixels_magic: u32,
        pixels_shift: u32, width: u32, width_magic: u32, width_shift: u32, taps: u32, taps_magic: u32,
        taps_shift: u32, taps_width: u32, taps_width_magic: u32, taps_width_shift: u32, image_height: u32,
        image_width: u32, image_channels: u32, scale_y: u32, scale_x: u32, first_y: u32, first_x: u32,
        step_y: u32, step_x: u32, height: u32, runs: u32, sample_runs: u32, z_count: u32, piece_first: u32
    }
}
