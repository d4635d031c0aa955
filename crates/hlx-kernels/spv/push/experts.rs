//! Push constants of the modules of experts.

blocks! {
    bounds { n: u32, groups: u32, shards: u32, shard_tokens: u32 }
    product_32x64, product_64x64 {
        m: u32, n: u32, k: u32, column_first: u32, rows: u32, first_expert: u32, experts: u32, stride: u32
    }
    sum { tokens: u32, choices: u32, width: u32, rows: u32 }
    table { n: u32, choices: u32 }
    weight_gradient { m: u32, n: u32, column_first: u32, rows: u32, first: u32 }
}
