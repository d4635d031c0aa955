//! Push constants of the modules of scan.

blocks! {
    across, along {
        items: u32, lines: u32, pieces: u32, piece: u32, n: u32, inner: u32, axis_stride: u32, first: u32,
        n_dims: u32, extents: [u32; 8], strides: [u32; 8]
    }
}
