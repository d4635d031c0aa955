//! Push constants of the modules of tree_digest.
#![cfg_attr(rustfmt, rustfmt_skip)]

#[repr(C)]
#[derive(Clone, Copy, Debug, bytemuck::Pod, bytemuck::Zeroable)]
pub struct Chunks {
    pub state: [u32; 8],
    pub n: u32,
    pub first: u32,
}
pub use Chunks as chunks;

#[repr(C)]
#[derive(Clone, Copy, Debug, bytemuck::Pod, bytemuck::Zeroable)]
pub struct Pairs {
    pub state: [u32; 8],
    pub n: u32,
    pub first: u32,
    pub blocks: u32,
}
pub use Pairs as pairs;
