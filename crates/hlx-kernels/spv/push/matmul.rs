//! Push constants of the modules of matmul.

blocks! {
    few_rows_16, few_rows_16_gated, few_rows_8, few_rows_8_gated { m: u32, n: u32, k: u32 }
    few_rows_16_normed, few_rows_8_normed { m: u32, n: u32, k: u32, eps: f32 }
    integers {
        batch: u32, m: u32, n: u32, k: u32, a_row: u32, a_column: u32, stride_a: u32, b_row: u32,
        b_column: u32, stride_b: u32, stride_c: u32
    }
    tile_128x128, tile_128x128_activation, tile_128x128_epilogue, tile_32x64, tile_32x64_activation,
    tile_32x64_epilogue, tile_64x128, tile_64x128_activation, tile_64x128_epilogue, tile_64x64,
    tile_64x64_activation, tile_64x64_epilogue, tile_64x64_short {
        m: u32, n: u32, k: u32, stride_a: u32, stride_b: u32, stride_c: u32, batch_first: u32, scalar: f32
    }
}
