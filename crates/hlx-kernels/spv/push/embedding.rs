//! Push constants of the modules of embedding.
#![cfg_attr(rustfmt, rustfmt_skip)]

#[repr(C)]
#[derive(Clone, Copy, Debug, bytemuck::Pod, bytemuck::Zeroable)]
pub struct Backward {
    pub rows: u32,
    pub rows_per_shard: u32,
    pub vocabulary: u32,
    pub width: u32,
}
pub use {Backward as backward, Backward as backward_sum};

#[repr(C)]
#[derive(Clone, Copy, Debug, bytemuck::Pod, bytemuck::Zeroable)]
pub struct Forward {
    pub n: u32,
    pub vocabulary: u32,
    pub width: u32,
}
pub use Forward as forward;
