//! Push constants of the modules of integer.

blocks! {
    column_tops, column_tops_of_activation, column_tops_of_gated, column_tops_of_layer_norm,
    column_tops_of_rms_norm, prepare_columns, prepare_columns_of_activation, prepare_columns_of_gated,
    prepare_columns_of_layer_norm, prepare_columns_of_rms_norm, prepare_rows_and_columns, row_and_column_tops {
        outer: u32, k: u32, columns: u32, words: u32, row_words: u32, stride: u32
    }
    counted_rows { rows: u32, k: u32 }
    group_tops, prepare_group_columns { rows: u32, columns: u32, groups: u32, words: u32 }
    prepare_heads, prepare_heads_twice {
        rows: u32, heads: u32, positions: u32, k: u32, words: u32, first: u32, batch_stride: u32,
        position_stride: u32, head_stride: u32
    }
    prepare_layer_norm, prepare_layer_norm_held, prepare_rms_norm, prepare_rms_norm_held {
        rows: u32, cols: u32, eps: f32, words: u32
    }
    prepare_rows, prepare_rows_of_activation, prepare_rows_of_gated {
        rows: u32, k: u32, words: u32, matrix_rows: u32, stride: u32
    }
    product, product_dots, product_few, product_few_dots, product_matrices, product_matrices_words {
        batch: u32, m: u32, n: u32, units: u32, groups: u32, c_first: u32, c_row: u32, first_group: u32,
        n_groups: u32
    }
}
