//! Push constants of the modules of attention.
#![cfg_attr(rustfmt, rustfmt_skip)]

#[repr(C)]
#[derive(Clone, Copy, Debug, bytemuck::Pod, bytemuck::Zeroable)]
pub struct Append {
    pub rows: u32,
    pub time: u32,
    pub heads: u32,
    pub key_heads: u32,
    pub width: u32,
    pub capacity: u32,
    pub pairs: u32,
    pub q_first: u32,
    pub q_row: u32,
    pub k_first: u32,
    pub k_row: u32,
    pub v_first: u32,
    pub v_row: u32,
    pub eps: f32,
    pub scale: f32,
}
pub use {Append as append, Append as append_integers};

#[repr(C)]
#[derive(Clone, Copy, Debug, bytemuck::Pod, bytemuck::Zeroable)]
pub struct BackwardDelta {
    pub rows: u32,
    pub heads_a_sequence: u32,
    pub time: u32,
}
pub use BackwardDelta as backward_delta;

#[repr(C)]
#[derive(Clone, Copy, Debug, bytemuck::Pod, bytemuck::Zeroable)]
pub struct BackwardKeyValue {
    pub heads: u32,
    pub heads_a_sequence: u32,
    pub time: u32,
    pub scale: f32,
}
pub use {BackwardKeyValue as backward_key_value, BackwardKeyValue as backward_query,
    BackwardKeyValue as forward, BackwardKeyValue as forward_32, BackwardKeyValue as forward_64};

#[repr(C)]
#[derive(Clone, Copy, Debug, bytemuck::Pod, bytemuck::Zeroable)]
pub struct BackwardKeyValue32 {
    pub heads: u32,
    pub heads_a_sequence: u32,
    pub time: u32,
    pub scale: f32,
    pub first_head: u32,
}
pub use {BackwardKeyValue32 as backward_key_value_32, BackwardKeyValue32 as backward_key_value_cached,
    BackwardKeyValue32 as backward_query_stored};

#[repr(C)]
#[derive(Clone, Copy, Debug, bytemuck::Pod, bytemuck::Zeroable)]
pub struct BackwardKeyValueCachedDropped {
    pub heads: u32,
    pub heads_a_sequence: u32,
    pub time: u32,
    pub scale: f32,
    pub first_head: u32,
    pub seed_low: u32,
    pub seed_high: u32,
    pub purpose: u32,
    pub p: f32,
    pub factor: f32,
}
pub use BackwardKeyValueCachedDropped as backward_key_value_cached_dropped;

#[repr(C)]
#[derive(Clone, Copy, Debug, bytemuck::Pod, bytemuck::Zeroable)]
pub struct FewQueriesScores {
    pub batch: u32,
    pub queries: u32,
    pub keys: u32,
    pub heads: u32,
    pub group: u32,
    pub q_first: u32,
    pub q_batch: u32,
    pub q_position: u32,
    pub q_head: u32,
    pub k_first: u32,
    pub k_batch: u32,
    pub k_position: u32,
    pub k_head: u32,
    pub v_first: u32,
    pub v_batch: u32,
    pub v_position: u32,
    pub v_head: u32,
    pub scale: f32,
    pub cap: f32,
    pub inverse_cap: f32,
    pub seed_low: u32,
    pub seed_high: u32,
    pub purpose: u32,
    pub p: f32,
    pub factor: f32,
}
pub use {FewQueriesScores as few_queries_scores, FewQueriesScores as few_queries_values,
    FewQueriesScores as integer_backward_key_value,
    FewQueriesScores as integer_backward_key_value_dots,
    FewQueriesScores as integer_backward_key_value_matrices,
    FewQueriesScores as integer_backward_key_value_matrices_words,
    FewQueriesScores as integer_backward_query, FewQueriesScores as integer_backward_query_dots,
    FewQueriesScores as integer_backward_query_matrices,
    FewQueriesScores as integer_backward_query_matrices_words, FewQueriesScores as integer_few_scores,
    FewQueriesScores as integer_few_values, FewQueriesScores as integer_forward,
    FewQueriesScores as integer_forward_dots, FewQueriesScores as integer_forward_matrices,
    FewQueriesScores as integer_forward_matrices_words,
    FewQueriesScores as ranged_backward_key_value_128,
    FewQueriesScores as ranged_backward_key_value_256,
    FewQueriesScores as ranged_backward_key_value_64, FewQueriesScores as ranged_backward_query_128,
    FewQueriesScores as ranged_backward_query_256, FewQueriesScores as ranged_backward_query_64,
    FewQueriesScores as ranged_forward_128, FewQueriesScores as ranged_forward_256,
    FewQueriesScores as ranged_forward_64};

#[repr(C)]
#[derive(Clone, Copy, Debug, bytemuck::Pod, bytemuck::Zeroable)]
pub struct Forward {
    pub heads: u32,
    pub heads_a_sequence: u32,
    pub time: u32,
    pub scale: f32,
    pub seed_low: u32,
    pub seed_high: u32,
    pub purpose: u32,
    pub p: f32,
    pub factor: f32,
}
pub use Forward as forward_64_dropped;

#[repr(C)]
#[derive(Clone, Copy, Debug, bytemuck::Pod, bytemuck::Zeroable)]
pub struct KeyRanges {
    pub batch: u32,
    pub queries: u32,
    pub keys: u32,
    pub causal: u32,
    pub window: u32,
    pub has_documents: u32,
    pub has_lengths: u32,
    pub has_first_positions: u32,
}
pub use {KeyRanges as key_ranges, KeyRanges as query_ranges};

#[repr(C)]
#[derive(Clone, Copy, Debug, bytemuck::Pod, bytemuck::Zeroable)]
pub struct RangedOutput {
    pub rows: u32,
    pub terms: u32,
    pub heads: u32,
    pub repeats: u32,
    pub column_group: u32,
    pub first_head: u32,
    pub n_heads: u32,
    pub columns_first: u32,
    pub columns_batch: u32,
    pub columns_position: u32,
    pub columns_head: u32,
    pub last_first: u32,
    pub scale: f32,
}
pub use {RangedOutput as ranged_output, RangedOutput as ranged_sum};

#[repr(C)]
#[derive(Clone, Copy, Debug, bytemuck::Pod, bytemuck::Zeroable)]
pub struct RangedScores {
    pub queries: u32,
    pub keys: u32,
    pub heads: u32,
    pub group: u32,
    pub first_head: u32,
    pub stored_heads: u32,
    pub scale: f32,
    pub cap: f32,
    pub inverse_cap: f32,
    pub seed_low: u32,
    pub seed_high: u32,
    pub purpose: u32,
    pub p: f32,
    pub factor: f32,
}
pub use {RangedScores as ranged_scores, RangedScores as ranged_weights};

#[repr(C)]
#[derive(Clone, Copy, Debug, bytemuck::Pod, bytemuck::Zeroable)]
pub struct RangedSoftmax {
    pub queries: u32,
    pub keys: u32,
    pub heads: u32,
    pub first_head: u32,
    pub stored_heads: u32,
    pub seed_low: u32,
    pub seed_high: u32,
    pub purpose: u32,
    pub p: f32,
    pub factor: f32,
}
pub use RangedSoftmax as ranged_softmax;
