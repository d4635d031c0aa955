// Push constants of experts/bounds, by `cargo xtask shaders` from its module.

#[repr(C)]
#[derive(Clone, Copy, Debug, bytemuck::Pod, bytemuck::Zeroable)]
pub struct Push {
    pub n: u32,
    pub groups: u32,
    pub shards: u32,
    pub shard_tokens: u32,
}
