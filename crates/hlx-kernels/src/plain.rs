//! Two launches as plain data: what `hlx-contract` makes contracts of HLX's own kernels from.

use hlx_core::Shader;

use crate::product::floats::table::Tile;
use crate::product::floats::{MatMul, START_BIAS, specialization};

/// Rows and columns of the product's tile, which every device has room for.
pub const PRODUCT_TILE: [usize; 2] = [64, 64];

/// Returns the shader of the product's tile, `matmul/tile_64x64`.
pub fn product_shader() -> Option<&'static Shader> {
    product_tile().map(Tile::shader)
}

/// Returns the specialization constants of `c = a b + bias` on that tile, ids and words.
pub fn product_specialization(m: usize, n: usize, k: usize) -> Option<[(u32, u32); 8]> {
    product_tile().map(|tile| specialization(&MatMul::new(m, n, k), tile, START_BIAS))
}

fn product_tile() -> Option<&'static Tile> {
    let [rows, columns] = PRODUCT_TILE;
    Tile::of_size(rows, columns)
}

/// Returns the shader of sums, `elementwise/binary`.
pub fn sum_shader() -> &'static Shader {
    &crate::elementwise::binary_shader::SHADER
}
