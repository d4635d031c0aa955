//! Matrix products: every product of the crate, by what it is made of.
//!
//! - [`floats`](self): chains of multiply-adds in f32, the portable arithmetic.
//! - [`quantised`]: exact sums over integers, the integer arithmetic.
//! - `dtype_product`: products of tensors of an integer dtype.
//! - `sources`: products whose terms are found in another way than as the rows of a matrix: the patches of images, and
//!   the rows of experts.

mod dtype_product;
pub(crate) mod floats;
pub(crate) mod formats;
mod operand;
pub mod quantised;
mod remembered;
pub(crate) mod sources;
pub(crate) mod tiles;

pub use dtype_product::matmul_integers;
#[doc(hidden)] // Public for `hlx-proof`, whose peak runs on the same vectors.
pub use floats::simd;
pub use floats::{
    Epilogue, MatMul, Prologue, matmul, matmul_after, matmul_with, step_product, widened,
};
pub use operand::{
    End, GradientColumns, Incoming, Matrices, Operand, Role, can_fuse, check_arithmetic, multiply,
    of_floats, takes_norm, takes_sources,
};
pub use quantised::Source;
pub use remembered::{PreparedWeight, remember_norm};
pub use sources::experts::{
    ExpertsColumns, ExpertsGradient, ExpertsProduct, experts_multiply, experts_product,
    experts_product_integers, experts_weight_gradient, experts_weight_gradient_integers,
};
