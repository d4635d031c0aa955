//! Push constants of the modules of integer.
#![cfg_attr(rustfmt, rustfmt_skip)]

#[repr(C)]
#[derive(Clone, Copy, Debug, bytemuck::Pod, bytemuck::Zeroable)]
pub struct ColumnTops {
    pub outer: u32,
    pub k: u32,
    pub columns: u32,
    pub words: u32,
    pub row_words: u32,
    pub stride: u32,
}
pub use {ColumnTops as column_tops, ColumnTops as column_tops_of_activation,
    ColumnTops as column_tops_of_gated, ColumnTops as column_tops_of_layer_norm,
    ColumnTops as column_tops_of_rms_norm, ColumnTops as prepare_columns,
    ColumnTops as prepare_columns_of_activation, ColumnTops as prepare_columns_of_gated,
    ColumnTops as prepare_columns_of_layer_norm, ColumnTops as prepare_columns_of_rms_norm,
    ColumnTops as prepare_rows_and_columns, ColumnTops as row_and_column_tops};

#[repr(C)]
#[derive(Clone, Copy, Debug, bytemuck::Pod, bytemuck::Zeroable)]
pub struct CountedRows {
    pub rows: u32,
    pub k: u32,
}
pub use CountedRows as counted_rows;

#[repr(C)]
#[derive(Clone, Copy, Debug, bytemuck::Pod, bytemuck::Zeroable)]
pub struct GroupTops {
    pub rows: u32,
    pub columns: u32,
    pub groups: u32,
    pub words: u32,
}
pub use {GroupTops as group_tops, GroupTops as prepare_group_columns};

#[repr(C)]
#[derive(Clone, Copy, Debug, bytemuck::Pod, bytemuck::Zeroable)]
pub struct PrepareHeads {
    pub rows: u32,
    pub heads: u32,
    pub positions: u32,
    pub k: u32,
    pub words: u32,
    pub first: u32,
    pub batch_stride: u32,
    pub position_stride: u32,
    pub head_stride: u32,
}
pub use {PrepareHeads as prepare_heads, PrepareHeads as prepare_heads_twice};

#[repr(C)]
#[derive(Clone, Copy, Debug, bytemuck::Pod, bytemuck::Zeroable)]
pub struct PrepareLayerNorm {
    pub rows: u32,
    pub cols: u32,
    pub eps: f32,
    pub words: u32,
}
pub use {PrepareLayerNorm as prepare_layer_norm, PrepareLayerNorm as prepare_layer_norm_held,
    PrepareLayerNorm as prepare_rms_norm, PrepareLayerNorm as prepare_rms_norm_held};

#[repr(C)]
#[derive(Clone, Copy, Debug, bytemuck::Pod, bytemuck::Zeroable)]
pub struct PrepareRows {
    pub rows: u32,
    pub k: u32,
    pub words: u32,
    pub matrix_rows: u32,
    pub stride: u32,
}
pub use {PrepareRows as prepare_rows, PrepareRows as prepare_rows_of_activation,
    PrepareRows as prepare_rows_of_gated};

#[repr(C)]
#[derive(Clone, Copy, Debug, bytemuck::Pod, bytemuck::Zeroable)]
pub struct Product {
    pub batch: u32,
    pub m: u32,
    pub n: u32,
    pub units: u32,
    pub groups: u32,
    pub c_first: u32,
    pub c_row: u32,
    pub first_group: u32,
    pub n_groups: u32,
}
pub use {Product as product, Product as product_dots, Product as product_few, Product as product_few_dots,
    Product as product_matrices, Product as product_matrices_words};
