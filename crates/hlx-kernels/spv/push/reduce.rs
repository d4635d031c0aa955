//! Push constants of the modules of reduce.

blocks! {
    columns { shards: u32, rows_per_shard: u32, cols: u32 }
    rows, rows_held { rows: u32, cols: u32, count: u32 }
    shards { shards: u32, n: u32 }
}
