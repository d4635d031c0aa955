// Push constants of recurrent/lstm_backward, by `cargo xtask shaders` from its module.

#[repr(C)]
#[derive(Clone, Copy, Debug, bytemuck::Pod, bytemuck::Zeroable)]
pub struct Push {
    pub batch: u32,
    pub time: u32,
    pub width: u32,
    pub position: u32,
    pub previous: u32,
}
