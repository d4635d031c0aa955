//! Push constants of the modules of reduce.
#![cfg_attr(rustfmt, rustfmt_skip)]

#[repr(C)]
#[derive(Clone, Copy, Debug, bytemuck::Pod, bytemuck::Zeroable)]
pub struct Columns {
    pub shards: u32,
    pub rows_per_shard: u32,
    pub cols: u32,
}
pub use Columns as columns;

#[repr(C)]
#[derive(Clone, Copy, Debug, bytemuck::Pod, bytemuck::Zeroable)]
pub struct Rows {
    pub rows: u32,
    pub cols: u32,
    pub count: u32,
}
pub use {Rows as rows, Rows as rows_held};

#[repr(C)]
#[derive(Clone, Copy, Debug, bytemuck::Pod, bytemuck::Zeroable)]
pub struct Shards {
    pub shards: u32,
    pub n: u32,
}
pub use Shards as shards;
