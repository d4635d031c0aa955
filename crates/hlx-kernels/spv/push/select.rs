//! Push constants of the modules of select.

blocks! {
    masked_fill {
        count: u32, parameters: [u32; 2], offsets: [u32; 2], extents: [u32; 7], strides: [u32; 16]
    }
    select { count: u32, offsets: [u32; 3], extents: [u32; 6], strides: [u32; 21] }
}
