//! Push constants of the modules of arith.
#![cfg_attr(rustfmt, rustfmt_skip)]

#[repr(C)]
#[derive(Clone, Copy, Debug, bytemuck::Pod, bytemuck::Zeroable)]
pub struct Every {
    pub count: u32,
    pub first: u32,
    pub stride: u32,
}
pub use {Every as every, Every as every_exp_log, Every as every_trigonometric};

#[repr(C)]
#[derive(Clone, Copy, Debug, bytemuck::Pod, bytemuck::Zeroable)]
pub struct Random {
    pub count: u32,
    pub key_0: u32,
    pub key_1: u32,
}
pub use Random as random;

#[repr(C)]
#[derive(Clone, Copy, Debug, bytemuck::Pod, bytemuck::Zeroable)]
pub struct Sweep {
    pub count: u32,
    pub op: u32,
}
pub use Sweep as sweep;
