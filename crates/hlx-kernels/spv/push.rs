//! The push constants of kernels, a module per family, by `cargo xtask shaders` from the modules.
#![allow(missing_docs, dead_code, unused_imports, non_camel_case_types)]

/// Makes a struct of each block, under the names of all modules that have it.
macro_rules! blocks {
    ($(mod $family:ident { $($first:ident $(, $other:ident)* { $($member:ident: $kind:ty),* $(,)? })* })*) => {$(
        pub mod $family {$(
            #[repr(C)]
            #[derive(Clone, Copy, Debug, bytemuck::Pod, bytemuck::Zeroable)]
            pub struct $first {
                $(pub $member: $kind),*
            }
            $(pub use self::$first as $other;)*
        )*}
    )*};
}

blocks! {
mod activation {
    backward_in_place, gelu_backward, gelu_forward, gelu_tanh_backward, gelu_tanh_forward, relu_backward,
    relu_forward, sigmoid_backward, sigmoid_forward, silu_backward, silu_forward, softplus_backward,
    softplus_forward, tanh_backward, tanh_forward {
        count: u32, scalar: f32
    }
}
mod attention {
    append, append_integers {
        rows: u32, time: u32, heads: u32, key_heads: u32, width: u32, capacity: u32, pairs: u32, q_first: u32,
        q_row: u32, k_first: u32, k_row: u32, v_first: u32, v_row: u32, eps: f32, scale: f32, pool_pages: u32
    }
    backward_delta { rows: u32, heads_a_sequence: u32, time: u32 }
    backward_key_value_32, backward_key_value_cached, backward_query_stored {
        heads: u32, heads_a_sequence: u32, time: u32, scale: f32, first_head: u32
    }
    backward_key_value_cached_dropped {
        heads: u32, heads_a_sequence: u32, time: u32, scale: f32, first_head: u32, seed_low: u32,
        seed_high: u32, purpose: u32, p: f32, factor: f32
    }
    few_queries_scores, few_queries_values, half_backward_key_value_matrices_bf16,
    half_backward_key_value_matrices_f16, half_backward_query_matrices_bf16, half_backward_query_matrices_f16,
    half_forward_matrices_bf16, half_forward_matrices_f16, integer_backward_key_value,
    integer_backward_key_value_dots, integer_backward_key_value_matrices,
    integer_backward_key_value_matrices_words, integer_backward_query, integer_backward_query_dots,
    integer_backward_query_matrices, integer_backward_query_matrices_words, integer_few_scores,
    integer_few_values, integer_forward, integer_forward_dots, integer_forward_matrices,
    integer_forward_matrices_words, ranged_backward_key_value_128, ranged_backward_key_value_256,
    ranged_backward_key_value_64, ranged_backward_query_128, ranged_backward_query_256,
    ranged_backward_query_64, ranged_forward_128, ranged_forward_256, ranged_forward_64 {
        batch: u32, queries: u32, keys: u32, heads: u32, group: u32, q_first: u32, q_batch: u32,
        q_position: u32, q_head: u32, k_first: u32, k_batch: u32, k_position: u32, k_head: u32, v_first: u32,
        v_batch: u32, v_position: u32, v_head: u32, scale: f32, cap: f32, inverse_cap: f32, seed_low: u32,
        seed_high: u32, purpose: u32, p: f32, factor: f32, pool_pages: u32
    }
    forward_32, forward_64 { heads: u32, heads_a_sequence: u32, time: u32, scale: f32 }
    forward_64_dropped {
        heads: u32, heads_a_sequence: u32, time: u32, scale: f32, seed_low: u32, seed_high: u32, purpose: u32,
        p: f32, factor: f32
    }
    key_ranges, query_ranges {
        batch: u32, queries: u32, keys: u32, causal: u32, window: u32, has_documents: u32, has_lengths: u32,
        has_first_positions: u32
    }
    ranged_output, ranged_sum {
        rows: u32, terms: u32, heads: u32, repeats: u32, column_group: u32, first_head: u32, n_heads: u32,
        columns_first: u32, columns_batch: u32, columns_position: u32, columns_head: u32, last_first: u32,
        scale: f32
    }
    ranged_scores, ranged_weights {
        queries: u32, keys: u32, heads: u32, group: u32, first_head: u32, stored_heads: u32, scale: f32,
        cap: f32, inverse_cap: f32, seed_low: u32, seed_high: u32, purpose: u32, p: f32, factor: f32
    }
    ranged_softmax {
        queries: u32, keys: u32, heads: u32, first_head: u32, stored_heads: u32, seed_low: u32, seed_high: u32,
        purpose: u32, p: f32, factor: f32
    }
    round_heads {
        rows: u32, heads: u32, positions: u32, k: u32, units: u32, first: u32, batch_stride: u32,
        position_stride: u32, head_stride: u32
    }
}
mod batch_norm {
    apply, backward_input {
        count: u32, shards: u32, samples: u32, channels: u32, extent: u32, magic: u32, shift: u32
    }
    backward_join, backward_sums, join, statistics {
        shards: u32, samples: u32, channels: u32, extent: u32, pieces: u32, magic: u32, shift: u32, eps: f32,
        momentum: f32
    }
}
mod binary {
    add, atan2, bitwise_and, bitwise_or, bitwise_xor, div, eq, floor_divide, ge, gt, le, left_shift,
    logical_and, logical_or, logical_xor, lt, maximum, minimum, mul, ne, pow, remainder, right_shift, sub {
        count: u32, parameters: [u32; 2], offsets: [u32; 2], extents: [u32; 7], strides: [u32; 16]
    }
}
mod conv2d {
    count_pixels, gradient_rows, images_128x128, images_32x64, images_64x128, images_64x64, patch_rows,
    prepare_patches, prepare_terms, round_patches, weight_32x64, weight_64x64 {
        m: u32, n: u32, k: u32, groups: u32, column_first: u32, z_first: u32, pixels: u32, pixels_magic: u32,
        pixels_shift: u32, width: u32, width_magic: u32, width_shift: u32, taps: u32, taps_magic: u32,
        taps_shift: u32, taps_width: u32, taps_width_magic: u32, taps_width_shift: u32, image_height: u32,
        image_width: u32, image_channels: u32, scale_y: u32, scale_x: u32, first_y: u32, first_x: u32,
        step_y: u32, step_x: u32, height: u32, runs: u32, sample_runs: u32, z_count: u32, piece_first: u32
    }
}
mod copy {
    assign { count: u32, offsets: [u32; 2], extents: [u32; 7], strides: [u32; 16] }
    assign_narrow {
        words: u32, x_offset: u32, y_offset: u32, extents: [u32; 8], x_strides: [u32; 8], y_strides: [u32; 8]
    }
    convert { count: u32, parameters: [u32; 2], offsets: [u32; 1], extents: [u32; 7], strides: [u32; 8] }
    tiles {
        groups: u32, a: u32, b: u32, x_offset: u32, y_offset: u32, x_stride_b: u32, y_stride_a: u32,
        extents: [u32; 6], x_strides: [u32; 6], y_strides: [u32; 6]
    }
}
mod cross_entropy {
    backward { rows: u32, vocabulary: u32, hit: f32, spread: f32 }
    forward { rows: u32, vocabulary: u32, keep: f32, spread: f32 }
}
mod dropout {
    dropout { batch: u32, per_sample: u32, seed_low: u32, seed_high: u32, purpose: u32, p: f32, factor: f32 }
}
mod elementwise {
    add_assign, binary, scale, scale_assign, scale_by { count: u32, scalar: f32 }
}
mod embedding {
    backward, backward_sum { rows: u32, rows_per_shard: u32, vocabulary: u32, width: u32 }
    forward { n: u32, vocabulary: u32, width: u32 }
}
mod experts {
    bounds { n: u32, groups: u32, shards: u32, shard_tokens: u32 }
    product_32x64, product_64x64 {
        m: u32, n: u32, k: u32, column_first: u32, rows: u32, first_expert: u32, experts: u32, stride: u32
    }
    sum { tokens: u32, choices: u32, width: u32, rows: u32 }
    table { n: u32, choices: u32 }
    weight_gradient { m: u32, n: u32, column_first: u32, rows: u32, first: u32 }
}
mod fast {
    product_matrices_bf16, product_matrices_f16, product_of_groups_matrices_bf16,
    product_of_groups_matrices_f16 {
        batch: u32, m: u32, n: u32, k: u32, groups: u32, a_line: u32, b_line: u32, a_matrix: u32,
        b_matrix: u32, c_first: u32, c_line: u32, first_group: u32
    }
    round, round_of_activation, round_of_gated, round_of_layer_norm, round_of_rms_norm {
        units: u32, per_line: u32, columns: u32
    }
}
mod fill {
    band, linspace, ramp, random { count: u32, first: u32, parameters: [u32; 6] }
}
mod indexing {
    add_lines, add_lines_held {
        lines: u32, positions: u32, n: u32, inner: u32, n_dims: u32, extents: [u32; 4], first: [u32; 3],
        axis_strides: [u32; 3], strides: [u32; 12]
    }
    chains, chains_of_four, joins, starts {
        count: u32, lines: u32, n: u32, inner: u32, axis_stride: u32, first: u32, n_dims: u32,
        extents: [u32; 8], strides: [u32; 8]
    }
    gather, targets {
        count: u32, n: u32, axis_stride: u32, x_first: u32, index_first: u32, n_dims: u32, extents: [u32; 8],
        x_strides: [u32; 8], index_strides: [u32; 8]
    }
    scatter { count: u32, first: u32, n_dims: u32, extents: [u32; 8], strides: [u32; 8] }
}
mod integer {
    block_rows { n: u32, rows: u32, terms: u32 }
    blocks_few, blocks_few_dots, blocks_few_fresh, blocks_few_fresh_dots, blocks_few_gated,
    blocks_few_gated_dots, blocks_few_normed, blocks_few_normed_dots, blocks_many, blocks_many_dots,
    blocks_many_matrices, blocks_many_matrices_words {
        batch: u32, m: u32, n: u32, units: u32, groups: u32, c_first: u32, c_row: u32, first_group: u32,
        n_groups: u32, blocks: u32
    }
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
    product, product_dots, product_few, product_few_dots, product_few_fresh, product_few_fresh_dots,
    product_few_gated, product_few_gated_dots, product_few_normed, product_few_normed_dots, product_matrices,
    product_matrices_words {
        batch: u32, m: u32, n: u32, units: u32, groups: u32, c_first: u32, c_row: u32, first_group: u32,
        n_groups: u32, b_rows: u32
    }
}
mod interpolate {
    bilinear_backward, bilinear_forward, nearest_backward, nearest_forward {
        count: u32, input_height: u32, input_width: u32, output_height: u32, output_width: u32, scale_y: f32,
        scale_x: f32
    }
}
mod layer_norm {
    backward_input, backward_input_held { rows: u32, cols: u32 }
    backward_params { shards: u32, rows_per_shard: u32, cols: u32 }
    forward, forward_held { rows: u32, cols: u32, eps: f32 }
}
mod matmul {
    few_rows_16, few_rows_16_gated, few_rows_8, few_rows_8_gated { m: u32, n: u32, k: u32 }
    few_rows_16_normed, few_rows_8_normed { m: u32, n: u32, k: u32, eps: f32 }
    integers {
        batch: u32, m: u32, n: u32, k: u32, a_row: u32, a_column: u32, stride_a: u32, b_row: u32,
        b_column: u32, stride_b: u32, stride_c: u32
    }
    tile_128x128, tile_128x128_activation, tile_128x128_epilogue, tile_32x64, tile_32x64_activation,
    tile_32x64_epilogue, tile_32x64_short, tile_64x128, tile_64x128_activation, tile_64x128_epilogue,
    tile_64x64, tile_64x64_activation, tile_64x64_epilogue, tile_64x64_short {
        m: u32, n: u32, k: u32, stride_a: u32, stride_b: u32, stride_c: u32, batch_first: u32, scalar: f32
    }
}
mod mse {
    backward, forward { count: u32, scalar: f32 }
}
mod optimizer {
    adafactor_apply, adafactor_factor, adafactor_gradient, adagrad, adam, average, lion, muon_apply,
    muon_direction, rmsprop, rmsprop_centered, rmsprop_centered_momentum, rmsprop_momentum, sgd, sgd_momentum {
        count: u32, row: u32, rows: u32
    }
    adafactor_normalise { count: u32, first: u32, rows: u32, cols: u32, inverse_rows: f32, epsilon: f32 }
    adafactor_scale { count: u32, row: u32, rows: u32, inverse_root: f32, epsilon: f32, inverse_limit: f32 }
    adamw_8bit { count: u32, row: u32, rows: u32, first_block: u32, params_base: u32, state_base: u32 }
    clip_factor { max_norm: f32 }
    combine { count: u32, scalar: f32 }
    guarded_factor { max_norm: f32, runs: u32, run: u32, stride: u32 }
}
mod pool {
    avg_backward, avg_forward, max_backward, max_forward {
        count: u32, input_height: u32, input_width: u32, output_height: u32, output_width: u32,
        kernel_height: u32, kernel_width: u32, stride_y: u32, stride_x: u32, padding_y: u32, padding_x: u32,
        dilation_y: u32, dilation_x: u32, divisor: f32
    }
}
mod recurrent {
    gru_backward, gru_forward, lstm_backward, lstm_forward {
        batch: u32, time: u32, width: u32, position: u32, previous: u32
    }
    product_16x16, product_16x64 { m: u32, n: u32, k: u32 }
}
mod reduce {
    columns { shards: u32, rows_per_shard: u32, cols: u32 }
    rows, rows_held { rows: u32, cols: u32, count: u32 }
    shards { shards: u32, n: u32 }
}
mod reduce_axes {
    pack_bool { count: u32 }
    places, words {
        items: u32, kept: u32, pieces: u32, terms: u32, first: u32, origin: u32, n_kept: u32, n_dims: u32,
        magic: u32, shift: u32, extents: [u32; 8], strides: [u32; 8]
    }
}
mod rms_norm {
    backward_input, backward_input_held { rows: u32, cols: u32 }
    backward_weight { shards: u32, rows_per_shard: u32, cols: u32 }
    forward, forward_held { rows: u32, cols: u32, eps: f32 }
}
mod rope {
    rope { rows: u32, heads: u32, width: u32, pairs: u32, inverse: u32, scale: f32 }
}
mod scan {
    across, along {
        items: u32, lines: u32, pieces: u32, piece: u32, n: u32, inner: u32, axis_stride: u32, first: u32,
        n_dims: u32, extents: [u32; 8], strides: [u32; 8]
    }
}
mod select {
    masked_fill {
        count: u32, parameters: [u32; 2], offsets: [u32; 2], extents: [u32; 7], strides: [u32; 16]
    }
    select { count: u32, offsets: [u32; 3], extents: [u32; 6], strides: [u32; 21] }
}
mod softmax {
    backward, backward_held, forward, forward_held { rows: u32, cols: u32 }
}
mod sort {
    count, line, rows, scatter, top {
        lines: u32, n: u32, blocks: u32, shift: u32, k: u32, inner: u32, axis_stride: u32, first: u32,
        n_dims: u32, extents: [u32; 8], strides: [u32; 8]
    }
    offsets { lines: u32, n: u32 }
}
mod transpose {
    transpose { rows: u32, columns: u32 }
}
mod tree_digest {
    chunks { state: [u32; 8], n: u32, first: u32 }
    pairs { state: [u32; 8], n: u32, first: u32, blocks: u32 }
}
mod unary {
    abs, acos, asin, atan, bitwise_not, ceil, clamp, cos, cosh, elu, erf, exp, exp2, expm1, floor, gelu,
    gelu_tanh, hardswish, isfinite, isnan, leaky_relu, log, log10, log1p, log2, logical_not, mish, neg,
    reciprocal, relu, round, rsqrt, sigmoid, sign, silu, sin, sinh, softplus, sqrt, square, tan, tanh, trunc {
        count: u32, parameters: [u32; 2], offsets: [u32; 1], extents: [u32; 7], strides: [u32; 8]
    }
}
}
