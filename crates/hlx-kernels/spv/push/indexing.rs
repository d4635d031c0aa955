//! Push constants of the modules of indexing.

blocks! {
    add_lines, add_lines_held {
        lines: u32, positions: u32, n: u32, inner: u32, n_dims: u32, extents: [u32; 4], first: [u32; 3],
        axis_strides: [u32; 3], strides: [u32; 12]
    }
    chains, chains_of_four, joins, starts {
        count: u32, lines: u32, n: u32, inner: u32, axis_stride: u32, first: u32, n_dims: u32,
        extents: [u32; 8], strides: [u32; 8]
    }
    gather, targets {
        count: u32, n: u32, axis_stride: u32, x_first: u32, index_first: u32, n_dims: u32, extents: [u32; 8],
        x_strides: [u32; 8], index_strides: [u32; 8]
    }
    scatter { count: u32, first: u32, n_dims: u32, extents: [u32; 8], strides: [u32; 8] }
}
