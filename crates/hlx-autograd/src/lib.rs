//! `Tensor`, the tape and the differentiable operations of HLX.
//!
//! A [`Tensor`] is a typed, strided array on a device. Operations are methods that return
//! new tensors and, where an input requires a gradient, put on the tape how to differentiate
//! themselves. [`Tensor::backward`] walks the tape in reverse.
//!
//! ```
//! use hlx_autograd::Tensor;
//! use hlx_core::Device;
//!
//! let device = Device::open("cpu")?;
//! let x = Tensor::from_slice(&device, &[1.0, 2.0, 3.0], &[3])?.with_gradient();
//! let loss = x.mul(&x)?.sum()?;
//! loss.backward()?;
//! assert_eq!(x.grad().unwrap().to_vec::<f32>()?, [2.0, 4.0, 6.0]);
//! # Ok::<(), hlx_autograd::AutogradError>(())
//! ```
//!
//! The order of every sum of gradients is fixed: the walk goes by decreasing node number, the
//! contributions to one tensor are added in that order, and a parameter's gradient follows the
//! shard rule of [`BackwardPlan`]. A whole forward and backward can be recorded with
//! `Device::record` and replayed, as nothing in it waits for the device.

/// A documentation test of some lines on the CPU device; with `x:`, x is \[\[1, 2, 3\], \[4, 5, 6\]\].
macro_rules! example {
    (x: $($line:literal),+) => {
        example!("let x = Tensor::from_slice(&device, &[1.0, 2.0, 3.0, 4.0, 5.0, 6.0], &[2, 3])?;", $($line),+)
    };
    ($($line:expr),+) => {
        concat!(
            "\n```\n# use hlx_autograd::*;\n# let device = hlx_core::Device::open(\"cpu\")?;\n",
            $($line, "\n",)+
            "# Ok::<(), AutogradError>(())\n```",
        )
    };
}

mod counters;
mod create;
mod device;
mod display;
mod error;
mod extent;
mod gradcheck;
mod graph;
mod in_place;
mod ops;
mod reuse;
mod samples;

pub use counters::counter;
pub use error::AutogradError;
pub use extent::Extent;
pub use gradcheck::{GradCheck, gradcheck};
pub use graph::backward::{Backward, BackwardPlan, Gradient, ParameterTarget};
pub use graph::hook::Hook;
pub use graph::input::{GradientSource, Input};
pub use graph::tape::{enable_grad, gradients_enabled, no_grad, set_gradients_enabled};
pub use graph::tensor::Tensor;
pub use hlx_core::{Autocast, AutocastScope, DType, Half};
pub use hlx_kernels::activation::Activation;
pub use hlx_kernels::cross_entropy::IGNORE_INDEX;
pub use hlx_kernels::elementwise::{Binary, Unary};
pub use hlx_kernels::interpolate::Interpolation;
pub use hlx_kernels::pool::AvgDivisor;
pub use ops::{
    AttentionSpec, BatchNormOptions, ConvOptions, CrossEntropyOptions, DropoutMask, ExpertChoices,
    Index, LossReduction, Operand, Padding, PoolOptions, Recompute, Recurrence, Rounding,
    RunningStatistics,
};
pub use samples::{Batch, Samples};

/// The result of an operation on tensors.
pub type Result<T, E = AutogradError> = std::result::Result<T, E>;
