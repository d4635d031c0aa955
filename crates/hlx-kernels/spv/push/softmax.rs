//! Push constants of the modules of softmax.
#![cfg_attr(rustfmt, rustfmt_skip)]

#[repr(C)]
#[derive(Clone, Copy, Debug, bytemuck::Pod, bytemuck::Zeroable)]
pub struct Push {
    pub rows: u32,
    pub cols: u32,
}
pub use {Push as backward, Push as backward_held, Push as forward, Push as forward_held};
