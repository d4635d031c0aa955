//! The `integer` arithmetic: products over integers, whose sums are exact in every order.
//!
//! A row of an operand (over the axis that is summed) becomes integers times a power of two of the row
//! ([`prepare`]): of 16 bits, in two digits, where it carries a step's signal ([`Width::Wide`]), else of 8
//! ([`Width::Narrow`]). [`integer_product`] multiplies a wide operand with a narrow one. Each result has one
//! definition, whatever instructions compute its sums:
//!
//! `C[m, n] = f32(S) 2^-(e_a[m] + e_b[n])`, with `S` the exact sum over k of `a[m, k] b[n, k]`, which is rounded
//! once, to nearest, ties to even; then -0 becomes +0, and a bias is added. A row with a NaN or an infinity
//! gives NaN. Below 2^-126 a result is +0, above the largest float an infinity.

mod law;
mod prepare;
mod product;
#[cfg(test)]
mod tests;

use hlx_core::{Buffer, DType};

use crate::KernelError;
use crate::error::check_that;

pub use law::Width;
pub use prepare::{Preparation, Prepared, prepare};
pub use product::{IntegerProduct, integer_product};

/// The longest sum: with the largest digits it fills 32 bits.
pub const MOST_TERMS: usize = 131_072;
/// Elements that a row of digits is a multiple of; zeros fill it up.
const GRANULE: usize = 64;

fn check_terms(operation: &'static str, k: usize) -> Result<(), KernelError> {
    check_that(operation, k <= MOST_TERMS, || {
        format!("k is {k}, expected at most {MOST_TERMS}: a longer sum may not fit 32 bits")
    })
}

fn check_dtype(
    operation: &'static str,
    argument: &str,
    buffer: &Buffer,
    dtype: DType,
) -> Result<(), KernelError> {
    check_that(operation, buffer.dtype() == dtype, || {
        format!("{argument} has dtype {}, expected {dtype}", buffer.dtype())
    })
}
