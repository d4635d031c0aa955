//! Push constants of the modules of sort.

blocks! {
    count, line, rows, scatter, top {
        lines: u32, n: u32, blocks: u32, shift: u32, k: u32, inner: u32, axis_stride: u32, first: u32,
        n_dims: u32, extents: [u32; 8], strides: [u32; 8]
    }
    offsets { lines: u32, n: u32 }
}
