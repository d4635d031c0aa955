//! Push constants of the modules of copy.

blocks! {
    assign { count: u32, offsets: [u32; 2], extents: [u32; 7], strides: [u32; 16] }
    assign_narrow {
        words: u32, x_offset: u32, y_offset: u32, extents: [u32; 8], x_strides: [u32; 8], y_strides: [u32; 8]
    }
    convert { count: u32, parameters: [u32; 2], offsets: [u32; 1], extents: [u32; 7], strides: [u32; 8] }
    tiles {
        groups: u32, a: u32, b: u32, x_offset: u32, y_offset: u32, x_stride_b: u32, y_stride_a: u32,
        extents: [u32; 6], x_strides: [u32; 6], y_strides: [u32; 6]
    }
}
