//! Weights in blocks, as quantised files store them: an operand of the `integer` arithmetic beside those of digits.
//!
//! A row of a weight, over the axis that is summed, is cut into blocks of 32, 64 or 256 terms. With q an integer and g its group, a
//! term of block b is `d scale[g] q - dmin min[g]` ([`BlockFormat`]). The left operand is that of
//! [`integer_product`](super::quantised::integer_product): integers X of 16 bits, in two digits, times a power of two for each
//! piece of 4,096 terms. Each result has one definition, whatever instructions compute its sums:
//!
//! - `S_b = sum over g of scale[g] (sum of q X)` and `M_b = sum over g of min[g] (sum of X)` are exact integers, each rounded
//!   once to a float, ties to even.
//! - A piece is a chain over its blocks in order, from +0: `c = fma(d_b, S_b, c)`, and then, in formats with minima,
//!   `c = fma(-dmin_b, M_b, c)`. Its result is `c 2^-e`, with e the exponent of X, as in a product of digits; -0 becomes +0.
//! - The results of pieces are added in f32, in order. What follows is as in a product of digits.
//!
//! A `d` or `dmin` below 2^-126 is a zero, as everywhere.
//!
//! In NF4 a term is d times a number of a table ([`NF4_NUMBERS`]). Values have the numbers themselves; in sums q is the nearest integer
//! of 127 times the number, and `d_b` is d times 1/127.

mod cpu;
mod few_rows;
mod format;
mod launch;
mod packed;
mod rows;
#[cfg(test)]
mod tests;

pub(super) use few_rows::block_product_of_few;
pub use format::{BLOCK_FORMATS, BlockFormat, Factor, Levels, NF4_NUMBERS};
pub use launch::block_product;
pub(super) use launch::block_product_by;
pub use packed::{Block, BlockRows};
pub use rows::{block_rows, block_values};
