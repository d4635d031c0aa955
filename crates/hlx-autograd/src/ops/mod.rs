//! The differentiable operations, one file each: forward and backward side by side.

mod activation;
mod add;
mod attention;
mod cross_entropy;
mod dropout;
mod embedding;
mod feed_forward;
mod frame;
mod layer_norm;
mod linear;
mod matmul;
mod movement;
mod mse;
mod mul;
mod scale;
mod softmax;
mod sub;
mod sum;
#[cfg(test)]
pub(crate) mod test_support;

pub use dropout::DropoutMask;
