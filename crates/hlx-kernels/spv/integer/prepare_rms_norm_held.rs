// Push constants of integer/prepare_rms_norm_held, by `cargo xtask shaders` from its module.

#[repr(C)]
#[derive(Clone, Copy, Debug, bytemuck::Pod, bytemuck::Zeroable)]
pub struct Push {
    pub rows: u32,
    pub cols: u32,
    pub eps: f32,
    pub words: u32,
}
