//! Push constants of the modules of cross_entropy.
#![cfg_attr(rustfmt, rustfmt_skip)]

#[repr(C)]
#[derive(Clone, Copy, Debug, bytemuck::Pod, bytemuck::Zeroable)]
pub struct Backward {
    pub rows: u32,
    pub vocabulary: u32,
    pub hit: f32,
    pub spread: f32,
}
pub use Backward as backward;

#[repr(C)]
#[derive(Clone, Copy, Debug, bytemuck::Pod, bytemuck::Zeroable)]
pub struct Forward {
    pub rows: u32,
    pub vocabulary: u32,
    pub keep: f32,
    pub spread: f32,
}
pub use Forward as forward;
