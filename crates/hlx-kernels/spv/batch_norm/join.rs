// Push constants of batch_norm/join, by `cargo xtask shaders` from its module.

#[repr(C)]
#[derive(Clone, Copy, Debug, bytemuck::Pod, bytemuck::Zeroable)]
pub struct Push {
    pub shards: u32,
    pub samples: u32,
    pub channels: u32,
    pub extent: u32,
    pub pieces: u32,
    pub magic: u32,
    pub shift: u32,
    pub eps: f32,
    pub momentum: f32,
}
