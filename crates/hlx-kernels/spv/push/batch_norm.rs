//! Push constants of the modules of batch_norm.

blocks! {
    apply, backward_input {
        count: u32, shards: u32, samples: u32, channels: u32, extent: u32, magic: u32, shift: u32
    }
    backward_join, backward_sums, join, statistics {
        shards: u32, samples: u32, channels: u32, extent: u32, pieces: u32, magic: u32, shift: u32, eps: f32,
        momentum: f32
    }
}
