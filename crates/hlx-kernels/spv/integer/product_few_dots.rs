// Push constants of integer/product_few_dots, by `cargo xtask shaders` from its module.

#[repr(C)]
#[derive(Clone, Copy, Debug, bytemuck::Pod, bytemuck::Zeroable)]
pub struct Push {
    pub batch: u32,
    pub m: u32,
    pub n: u32,
    pub units: u32,
    pub groups: u32,
    pub c_first: u32,
    pub c_row: u32,
    pub first_group: u32,
    pub n_groups: u32,
}
