// Push constants of matmul/integers, by `cargo xtask shaders` from its module.

#[repr(C)]
#[derive(Clone, Copy, Debug, bytemuck::Pod, bytemuck::Zeroable)]
pub struct Push {
    pub batch: u32,
    pub m: u32,
    pub n: u32,
    pub k: u32,
    pub a_row: u32,
    pub a_column: u32,
    pub stride_a: u32,
    pub b_row: u32,
    pub b_column: u32,
    pub stride_b: u32,
    pub stride_c: u32,
}
