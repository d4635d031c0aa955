//! Push constants of the modules of batch_norm.
#![cfg_attr(rustfmt, rustfmt_skip)]

#[repr(C)]
#[derive(Clone, Copy, Debug, bytemuck::Pod, bytemuck::Zeroable)]
pub struct Apply {
    pub count: u32,
    pub shards: u32,
    pub samples: u32,
    pub channels: u32,
    pub extent: u32,
    pub magic: u32,
    pub shift: u32,
}
pub use {Apply as apply, Apply as backward_input};

#[repr(C)]
#[derive(Clone, Copy, Debug, bytemuck::Pod, bytemuck::Zeroable)]
pub struct BackwardJoin {
    pub shards: u32,
    pub samples: u32,
    pub channels: u32,
    pub extent: u32,
    pub pieces: u32,
    pub magic: u32,
    pub shift: u32,
    pub eps: f32,
    pub momentum: f32,
}
pub use {BackwardJoin as backward_join, BackwardJoin as backward_sums, BackwardJoin as join,
    BackwardJoin as statistics};
