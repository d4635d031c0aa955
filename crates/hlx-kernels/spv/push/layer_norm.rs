//! Push constants of the modules of layer_norm.

blocks! {
    backward_input, backward_input_held { rows: u32, cols: u32 }
    backward_params { shards: u32, rows_per_shard: u32, cols: u32 }
    forward, forward_held { rows: u32, cols: u32, eps: f32 }
}
