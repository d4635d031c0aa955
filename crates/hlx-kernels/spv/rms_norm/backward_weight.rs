// Push constants of rms_norm/backward_weight, by `cargo xtask shaders` from its module.

#[repr(C)]
#[derive(Clone, Copy, Debug, bytemuck::Pod, bytemuck::Zeroable)]
pub struct Push {
    pub shards: u32,
    pub rows_per_shard: u32,
    pub cols: u32,
}
