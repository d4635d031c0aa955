//! Push constants of the modules of reduce_axes.

blocks! {
    pack_bool { count: u32 }
    places, words {
        items: u32, kept: u32, pieces: u32, terms: u32, first: u32, origin: u32, n_kept: u32, n_dims: u32,
        magic: u32, shift: u32, extents: [u32; 8], strides: [u32; 8]
    }
}
