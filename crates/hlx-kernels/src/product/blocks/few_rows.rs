//! The product of few rows of floats with a weight in blocks, whose shader makes their integers.

use hlx_core::{Buffer, Device, Shader};

use super::block_product;
use super::launch::{few_constants, few_shared_bytes, push_of};
use super::packed::BlockRows;
use crate::Result;
use crate::kernel::Kernel;
use crate::product::quantised::{FewRows, held_units, rows_are_held, takes_dots};

shader!(integer::{
    blocks_few_fresh as fresh_shader, blocks_few_fresh_dots as fresh_dots_shader,
    blocks_few_gated as gated_shader, blocks_few_gated_dots as gated_dots_shader,
    blocks_few_normed as normed_shader, blocks_few_normed_dots as normed_dots_shader,
});

/// What computes A's integers: the product from rows, from a gate, or from rows and their norm.
static SHADERS: [[&Shader; 2]; 3] = [
    [&fresh_shader::SHADER, &fresh_dots_shader::SHADER],
    [&gated_shader::SHADER, &gated_dots_shader::SHADER],
    [&normed_shader::SHADER, &normed_dots_shader::SHADER],
];

impl BlockRows {
    /// Whether the product makes the integers of A's `m` rows itself.
    pub fn fuses(&self, device: &Device, m: usize) -> bool {
        let [n, k] = self.sizes;
        n > 0 && rows_are_held(device, [m, k], few_shared_bytes(self.format, m.max(1)))
    }
}

/// Computes the product of rows and a weight: in one launch where a workgroup holds the rows, else in several.
///
/// # Errors
/// If a buffer has another type or length, and if a launch fails.
pub(in crate::product) fn block_product_of_few(
    device: &Device,
    rows: &FewRows<'_>,
    weight: &BlockRows,
    c: &Buffer,
) -> Result<()> {
    let (m, format, sizes) = (rows.m, weight.format, weight.sizes);
    rows.check(sizes, c)?;
    if !weight.fuses(device, m) {
        let a = rows.prepared(device, sizes)?;
        return block_product(device, &a, weight, rows.bias, c, rows.epilogue());
    }
    let (form, constant) = rows.form();
    let [n, k] = sizes;
    let shader = SHADERS[form][usize::from(takes_dots(device))];
    let kernel = Kernel::new("block_product", shader)
        .constants(constants!(0: rows.bias.is_some(), rows.added.is_some()))
        .constants(few_constants(format, m))
        .constants([(11, held_units(k) as u32)])
        .constants(constant.as_slice())
        .constants(format.constants())
        .reads([rows.x])
        .reads_if(None)
        .reads([&weight.words])
        .reads_if(None);
    rows.launch(device, kernel, c, push_of(m, weight, k, [0, 0]), [n, k])
}
