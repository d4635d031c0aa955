//! Push constants of the modules of embedding.

blocks! {
    backward, backward_sum { rows: u32, rows_per_shard: u32, vocabulary: u32, width: u32 }
    forward { n: u32, vocabulary: u32, width: u32 }
}
