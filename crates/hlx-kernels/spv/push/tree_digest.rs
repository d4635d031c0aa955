//! Push constants of the modules of tree_digest.

blocks! {
    chunks { state: [u32; 8], n: u32, first: u32 }
    pairs { state: [u32; 8], n: u32, first: u32, blocks: u32 }
}
