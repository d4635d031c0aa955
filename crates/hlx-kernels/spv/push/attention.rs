//! Push constants of the modules of attention.

blocks! {
    append, append_integers {
        rows: u32, time: u32, heads: u32, key_heads: u32, width: u32, capacity: u32, pairs: u32, q_first: u32,
        q_row: u32, k_first: u32, k_row: u32, v_first: u32, v_row: u32, eps: f32, scale: f32
    }
    backward_delta { rows: u32, heads_a_sequence: u32, time: u32 }
    backward_key_value_32, backward_key_value_cached, backward_query_stored {
        heads: u32, heads_a_sequence: u32, time: u32, scale: f32, first_head: u32
    }
    backward_key_value_cached_dropped {
        heads: u32, heads_a_sequence: u32, time: u32, scale: f32, first_head: u32, seed_low: u32,
        seed_high: u32, purpose: u32, p: f32, factor: f32
    }
    few_queries_scores, few_queries_values, integer_backward_key_value, integer_backward_key_value_dots,
    integer_backward_key_value_matrices, integer_backward_key_value_matrices_words, integer_backward_query,
    integer_backward_query_dots, integer_backward_query_matrices, integer_backward_query_matrices_words,
    integer_few_scores, integer_few_values, integer_forward, integer_forward_dots, integer_forward_matrices,
    integer_forward_matrices_words, ranged_backward_key_value_128, ranged_backward_key_value_256,
    ranged_backward_key_value_64, ranged_backward_query_128, ranged_backward_query_256,
    ranged_backward_query_64, ranged_forward_128, ranged_forward_256, ranged_forward_64 {
        batch: u32, queries: u32, keys: u32, heads: u32, group: u32, q_first: u32, q_batch: u32,
        q_position: u32, q_head: u32, k_first: u32, k_batch: u32, k_position: u32, k_head: u32, v_first: u32,
        v_batch: u32, v_position: u32, v_head: u32, scale: f32, cap: f32, inverse_cap: f32, seed_low: u32,
        seed_high: u32, purpose: u32, p: f32, factor: f32
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
}
