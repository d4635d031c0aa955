//! The differentiable operations, one file each: forward and backward side by side.

mod activation;
mod attention;
mod batch_norm;
mod binary;
mod cast;
mod class_loss;
mod conv;
mod cross_entropy;
mod dropout;
mod einsum;
mod embedding;
mod feed_forward;
mod forms;
mod frame;
mod group_norm;
mod indexing;
mod join;
mod layer_norm;
mod linear;
mod loss;
mod matmul;
mod movement;
mod mse;
mod normal;
mod pool;
mod recurrent;
mod reduction;
mod rms_norm;
mod scalar;
mod scale;
mod select;
mod softmax;
mod sum;
#[cfg(test)]
pub(crate) mod test_support;
mod unary;

pub use batch_norm::{BatchNormOptions, RunningStatistics};
pub use class_loss::CrossEntropyOptions;
pub use conv::ConvOptions;
pub use dropout::DropoutMask;
pub use forms::Rounding;
pub use join::Padding;
pub use loss::LossReduction;
pub use pool::PoolOptions;
pub use recurrent::Recurrence;
pub use scalar::Operand;
