//! Push constants of the modules of dropout.
#![cfg_attr(rustfmt, rustfmt_skip)]

#[repr(C)]
#[derive(Clone, Copy, Debug, bytemuck::Pod, bytemuck::Zeroable)]
pub struct Push {
    pub batch: u32,
    pub per_sample: u32,
    pub seed_low: u32,
    pub seed_high: u32,
    pub purpose: u32,
    pub p: f32,
    pub factor: f32,
}
pub use Push as dropout;
