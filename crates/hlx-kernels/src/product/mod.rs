//! Matrix products: every product of the crate, by what it is made of.
//!
//! A product has two operands and an end: a bias, accumulation, an epilogue. An [`Operand`] is what it is to a step (its
//! [`Role`]), its source, and how it is stored:
//!
//! - **Sources** are matrices in memory, with their transposes and strides, the patches of images (`sources/patches`), the rows
//!   of experts (`sources/experts`), and columns by shards ([`Matrices::shards`]).
//! - **Storage** is floats (`floats`: chains of multiply-adds, the portable arithmetic) or a row of the table in `formats.rs`
//!   ([`quantised`]: exact sums over integers, the integer arithmetic), or the floats rounded to 16 bits ([`halves`]: the
//!   arithmetic `fast`).
//!
//! Chains of floats are computed by tiles of C, whatever their source: `tiles.rs` has the table of them, picks one for a device,
//! and launches the grid. `dtype_product.rs` has products of tensors of an integer dtype.

pub mod blocks;
mod dtype_product;
pub(crate) mod floats;
pub(crate) mod formats;
pub mod halves;
mod operand;
pub mod quantised;
mod rectangles;
mod remembered;
mod role;
mod shape;
pub(crate) mod sources;
pub(crate) mod tiles;
pub(crate) mod transposed;

pub use dtype_product::matmul_integers;
#[doc(hidden)] // Public for `hlx-proof`, whose peak runs on the same vectors.
pub use floats::simd;
pub use floats::{Epilogue, FloatProduct, Prologue, matmul, step_product, widened};
pub(crate) use operand::quantises;
pub use operand::{
    End, GradientColumns, Incoming, Matrices, Operand, can_fuse, check_arithmetic, multiply,
    multiply_few, of_floats, takes_norm, takes_norm_again, takes_sources,
};
pub use quantised::Source;
pub use remembered::{PreparedWeight, remember_norm};
pub use role::Role;
pub use shape::MatMul;
pub use sources::experts::{
    ExpertsGradient, ExpertsProduct, experts_block_product, experts_product,
};
