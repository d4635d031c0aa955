//! Two launches as plain data: what `hlx-contract` makes contracts of HLX's own kernels from.

use hlx_core::Shader;

use crate::product::MatMul;
use crate::product::floats::specialization;
use crate::product::tiles::{Form, Start, Tile};

/// Rows and columns of the product's tile, which every device has room for.
pub const PRODUCT_TILE: [usize; 2] = [64, 64];

/// Returns the shader of the product's tile, `matmul/tile_64x64`.
pub fn product_shader() -> &'static Shader {
    product_tile().shader
}

/// Returns the specialization constants of `c = a b + bias` on that tile, ids and words.
pub fn product_specialization(m: usize, n: usize, k: usize) -> [(u32, u32); 8] {
    specialization(&MatMul::new(m, n, k), product_tile(), Start::Bias)
}

fn product_tile() -> &'static Tile {
    Tile::largest(Form::Dense, PRODUCT_TILE)
}

/// Returns the shader of sums, `elementwise/binary`.
pub fn sum_shader() -> &'static Shader {
    &crate::elementwise::binary_shader::SHADER
}
