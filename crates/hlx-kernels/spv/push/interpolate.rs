//! Push constants of the modules of interpolate.

blocks! {
    bilinear_backward, bilinear_forward, nearest_backward, nearest_forward {
        count: u32, input_height: u32, input_width: u32, output_height: u32, output_width: u32, scale_y: f32,
        scale_x: f32
    }
}
