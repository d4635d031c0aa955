//! Push constants of the modules of rms_norm.
#![cfg_attr(rustfmt, rustfmt_skip)]

#[repr(C)]
#[derive(Clone, Copy, Debug, bytemuck::Pod, bytemuck::Zeroable)]
pub struct BackwardInput {
    pub rows: u32,
    pub cols: u32,
}
pub use {BackwardInput as backward_input, BackwardInput as backward_input_held};

#[repr(C)]
#[derive(Clone, Copy, Debug, bytemuck::Pod, bytemuck::Zeroable)]
pub struct BackwardWeight {
    pub shards: u32,
    pub rows_per_shard: u32,
    pub cols: u32,
}
pub use BackwardWeight as backward_weight;

#[repr(C)]
#[derive(Clone, Copy, Debug, bytemuck::Pod, bytemuck::Zeroable)]
pub struct Forward {
    pub rows: u32,
    pub cols: u32,
    pub eps: f32,
}
pub use {Forward as forward, Forward as forward_held};
