// Push constants of tree_digest/chunks, by `cargo xtask shaders` from its module.

#[repr(C)]
#[derive(Clone, Copy, Debug, bytemuck::Pod, bytemuck::Zeroable)]
pub struct Push {
    pub state: [u32; 8],
    pub n: u32,
    pub first: u32,
}
