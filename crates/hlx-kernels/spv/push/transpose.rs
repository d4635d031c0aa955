//! Push constants of the modules of transpose.
#![cfg_attr(rustfmt, rustfmt_skip)]

#[repr(C)]
#[derive(Clone, Copy, Debug, bytemuck::Pod, bytemuck::Zeroable)]
pub struct Push {
    pub rows: u32,
    pub columns: u32,
}
pub use Push as transpose;
