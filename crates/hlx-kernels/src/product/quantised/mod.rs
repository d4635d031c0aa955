//! The `integer` arithmetic: products of quantised operands, whose sums are exact in every order.
//!
//! A row of an operand (over the axis that is summed) is cut into pieces of 4,096 terms, or is one piece of up to 131,072
//! ([`Preparation::whole`]). A piece becomes integers
//! times a power of two of the piece ([`prepare`]): of 16 bits, in two digits, where it carries a step's signal
//! ([`Digits::Two`]), else of 8 ([`Digits::One`]). [`integer_product`] multiplies an operand with two digits by one with one digit.
//! Each result has one definition, whatever instructions compute its sums:
//!
//! `C[m, n] = r_0 + r_1 + ..`, added in f32 in order, with `r = f32(S) 2^-(e_a[m] + e_b[n])` of a piece, and `S` the
//! exact sum over its k of `a[m, k] b[n, k]`, which is rounded once, to nearest, ties to even; -0 becomes +0. A piece
//! with a NaN or an infinity gives NaN. Below 2^-126 a piece's result is +0, above the largest float an infinity.

mod cpu;
mod few_rows;
mod launch;
mod prepare;
mod product;
mod shape;
pub(crate) mod specification;
#[cfg(test)]
pub(crate) mod tests;

use hlx_core::Device;

use crate::tuning::KernelTuning;

pub(crate) use few_rows::FewRows;
pub(super) use few_rows::{held_units, rows_are_held, takes_dots};
pub(crate) use launch::Call;
pub use prepare::{
    Beside, Preparation, Prepared, Source, prepare, prepare_norm, prepare_rows_and_columns,
};
pub(crate) use prepare::{DigitRows, Groups, prepare_row};
pub use product::integer_product;
pub(crate) use product::integer_product_by;
pub use shape::IntegerProduct;
pub(crate) use shape::{Bounded, Bounds};
pub use specification::Digits;

/// Terms of a row that share an exponent: as many as the layers of today's models have inputs, and few enough that
/// what is small in a long row, such as a vocabulary's gradient, meets an exponent of its own size.
pub const PIECE: usize = 4096;
/// Terms of a sum with one exponent at most: its digits' sums are exact in 32 bits.
pub const LONGEST: usize = 1 << 17;
/// Elements that a row of digits is a multiple of; zeros fill it up.
const GRANULE: usize = 64;

/// What the handle's products of integers are summed by, in words.
pub fn instructions(device: &Device) -> String {
    match device.is_cpu() {
        true => cpu::fastest().to_string(),
        false => KernelTuning::of(device).products.integers.to_string(),
    }
}
