// Push constants of embedding/backward, by `cargo xtask shaders` from its module.

#[repr(C)]
#[derive(Clone, Copy, Debug, bytemuck::Pod, bytemuck::Zeroable)]
pub struct Push {
    pub rows: u32,
    pub rows_per_shard: u32,
    pub vocabulary: u32,
    pub width: u32,
}
