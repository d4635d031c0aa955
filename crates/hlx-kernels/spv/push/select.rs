//! Push constants of the modules of select.
#![cfg_attr(rustfmt, rustfmt_skip)]

#[repr(C)]
#[derive(Clone, Copy, Debug, bytemuck::Pod, bytemuck::Zeroable)]
pub struct MaskedFill {
    pub count: u32,
    pub parameters: [u32; 2],
    pub offsets: [u32; 2],
    pub extents: [u32; 7],
    pub strides: [u32; 16],
}
pub use MaskedFill as masked_fill;

#[repr(C)]
#[derive(Clone, Copy, Debug, bytemuck::Pod, bytemuck::Zeroable)]
pub struct Select {
    pub count: u32,
    pub offsets: [u32; 3],
    pub extents: [u32; 6],
    pub strides: [u32; 21],
}
pub use Select as select;
