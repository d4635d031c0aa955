//! Push constants of the modules of recurrent.
#![cfg_attr(rustfmt, rustfmt_skip)]

#[repr(C)]
#[derive(Clone, Copy, Debug, bytemuck::Pod, bytemuck::Zeroable)]
pub struct GruBackward {
    pub batch: u32,
    pub time: u32,
    pub width: u32,
    pub position: u32,
    pub previous: u32,
}
pub use {GruBackward as gru_backward, GruBackward as gru_forward, GruBackward as lstm_backward,
    GruBackward as lstm_forward};

#[repr(C)]
#[derive(Clone, Copy, Debug, bytemuck::Pod, bytemuck::Zeroable)]
pub struct Product {
    pub m: u32,
    pub n: u32,
    pub k: u32,
}
pub use {Product as product_16x16, Product as product_16x64};
