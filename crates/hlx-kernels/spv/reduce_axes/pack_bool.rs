// Push constants of reduce_axes/pack_bool, by `cargo xtask shaders` from its module.

#[repr(C)]
#[derive(Clone, Copy, Debug, bytemuck::Pod, bytemuck::Zeroable)]
pub struct Push {
    pub count: u32,
}
