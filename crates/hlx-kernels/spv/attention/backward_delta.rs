// Push constants of attention/backward_delta, by `cargo xtask shaders` from its module.

#[repr(C)]
#[derive(Clone, Copy, Debug, bytemuck::Pod, bytemuck::Zeroable)]
pub struct Push {
    pub rows: u32,
    pub heads_a_sequence: u32,
    pub time: u32,
}
