//! Push constants of the modules of experts.
#![cfg_attr(rustfmt, rustfmt_skip)]

#[repr(C)]
#[derive(Clone, Copy, Debug, bytemuck::Pod, bytemuck::Zeroable)]
pub struct Bounds {
    pub n: u32,
    pub groups: u32,
    pub shards: u32,
    pub shard_tokens: u32,
}
pub use Bounds as bounds;

#[repr(C)]
#[derive(Clone, Copy, Debug, bytemuck::Pod, bytemuck::Zeroable)]
pub struct Product {
    pub m: u32,
    pub n: u32,
    pub k: u32,
    pub column_first: u32,
    pub rows: u32,
    pub first_expert: u32,
    pub experts: u32,
    pub stride: u32,
}
pub use {Product as product_32x64, Product as product_64x64};

#[repr(C)]
#[derive(Clone, Copy, Debug, bytemuck::Pod, bytemuck::Zeroable)]
pub struct Sum {
    pub tokens: u32,
    pub choices: u32,
    pub width: u32,
    pub rows: u32,
}
pub use Sum as sum;

#[repr(C)]
#[derive(Clone, Copy, Debug, bytemuck::Pod, bytemuck::Zeroable)]
pub struct Table {
    pub n: u32,
    pub choices: u32,
}
pub use Table as table;

#[repr(C)]
#[derive(Clone, Copy, Debug, bytemuck::Pod, bytemuck::Zeroable)]
pub struct WeightGradient {
    pub m: u32,
    pub n: u32,
    pub column_first: u32,
    pub rows: u32,
    pub first: u32,
}
pub use WeightGradient as weight_gradient;
