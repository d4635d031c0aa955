//! The differentiable operations, one file each: forward and backward side by side.

mod activation;
mod attention;
mod binary;
mod cast;
mod conv;
mod cross_entropy;
mod dropout;
mod einsum;
mod embedding;
mod feed_forward;
mod frame;
mod indexing;
mod join;
mod layer_norm;
mod linear;
mod matmul;
mod movement;
mod mse;
mod pool;
mod reduction;
mod scalar;
mod scale;
mod select;
mod softmax;
mod sum;
#[cfg(test)]
pub(crate) mod test_support;
mod unary;

pub use conv::ConvOptions;
pub use dropout::DropoutMask;
pub use join::Padding;
pub use pool::PoolOptions;
pub use scalar::Operand;
