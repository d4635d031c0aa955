// Push constants of batch_norm/backward_input, by `cargo xtask shaders` from its module.

#[repr(C)]
#[derive(Clone, Copy, Debug, bytemuck::Pod, bytemuck::Zeroable)]
pub struct Push {
    pub count: u32,
    pub shards: u32,
    pub samples: u32,
    pub channels: u32,
    pub extent: u32,
    pub magic: u32,
    pub shift: u32,
}
