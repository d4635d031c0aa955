//! Push constants of the modules of matmul.
#![cfg_attr(rustfmt, rustfmt_skip)]

#[repr(C)]
#[derive(Clone, Copy, Debug, bytemuck::Pod, bytemuck::Zeroable)]
pub struct FewRows16 {
    pub m: u32,
    pub n: u32,
    pub k: u32,
}
pub use {FewRows16 as few_rows_16, FewRows16 as few_rows_16_gated, FewRows16 as few_rows_8,
    FewRows16 as few_rows_8_gated};

#[repr(C)]
#[derive(Clone, Copy, Debug, bytemuck::Pod, bytemuck::Zeroable)]
pub struct FewRows16Normed {
    pub m: u32,
    pub n: u32,
    pub k: u32,
    pub eps: f32,
}
pub use {FewRows16Normed as few_rows_16_normed, FewRows16Normed as few_rows_8_normed};

#[repr(C)]
#[derive(Clone, Copy, Debug, bytemuck::Pod, bytemuck::Zeroable)]
pub struct Integers {
    pub batch: u32,
    pub m: u32,
    pub n: u32,
    pub k: u32,
    pub a_row: u32,
    pub a_column: u32,
    pub stride_a: u32,
    pub b_row: u32,
    pub b_column: u32,
    pub stride_b: u32,
    pub stride_c: u32,
}
pub use Integers as integers;

#[repr(C)]
#[derive(Clone, Copy, Debug, bytemuck::Pod, bytemuck::Zeroable)]
pub struct Tile {
    pub m: u32,
    pub n: u32,
    pub k: u32,
    pub stride_a: u32,
    pub stride_b: u32,
    pub stride_c: u32,
    pub batch_first: u32,
    pub scalar: f32,
}
pub use {Tile as tile_128x128, Tile as tile_128x128_activation, Tile as tile_128x128_epilogue,
    Tile as tile_32x64, Tile as tile_32x64_activation, Tile as tile_32x64_epilogue,
    Tile as tile_64x128, Tile as tile_64x128_activation, Tile as tile_64x128_epilogue,
    Tile as tile_64x64, Tile as tile_64x64_activation, Tile as tile_64x64_epilogue,
    Tile as tile_64x64_short};
