//! Push constants of the modules of pool.

blocks! {
    avg_backward, avg_forward, max_backward, max_forward {
        count: u32, input_height: u32, input_width: u32, output_height: u32, output_width: u32,
        kernel_height: u32, kernel_width: u32, stride_y: u32, stride_x: u32, padding_y: u32, padding_x: u32,
        dilation_y: u32, dilation_x: u32, divisor: f32
    }
}
