//! The errors of the tape: every variant names the operation and what it found.

use hlx_core::{CoreError, DType};
use hlx_kernels::KernelError;
use thiserror::Error;

/// An error of a tensor, an operation or a backward pass.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum AutogradError {
    /// An argument's shape does not fit the operation.
    #[error("{op}: {argument} has shape {found:?}, expected {expected}")]
    Shape {
        /// The operation.
        op: &'static str,
        /// The argument.
        argument: &'static str,
        /// Its shape.
        found: Vec<usize>,
        /// What would fit.
        expected: String,
    },
    /// An argument has elements of another type than the operation takes.
    #[error("{op}: {argument} has elements of {found}, expected {expected}")]
    DType {
        /// The operation.
        op: &'static str,
        /// The argument.
        argument: &'static str,
        /// Its type.
        found: DType,
        /// The type that is needed.
        expected: DType,
    },
    /// The arguments of an operation are of two devices.
    #[error("{op}: {argument} belongs to {found}, self to {expected}")]
    Device {
        /// The operation.
        op: &'static str,
        /// The argument.
        argument: &'static str,
        /// Its device.
        found: String,
        /// The device of the tensor whose method was called.
        expected: String,
    },
    /// The plan's shards do not divide the batch of an operation with parameters.
    #[error("{op}: {shards} shards do not divide a batch of {batch}")]
    Shards {
        /// The operation.
        op: &'static str,
        /// The plan's shards.
        shards: usize,
        /// The samples of the operation's input.
        batch: usize,
    },
    /// A pass by shards or over a part of the batch, and an operation with parameters whose input
    /// does not say where the samples are, or has them mixed.
    #[error("{op}: {reason}; a pass by shards needs the samples in the first dimension")]
    Samples {
        /// The operation.
        op: &'static str,
        /// What is known of the samples.
        reason: &'static str,
    },
    /// A parameter that an operation has made, such as a reshaped one, or that has hooks, in a pass
    /// over a part of a shard: the sum of its gradient cannot go on from the pass before.
    #[error(
        "{op}: the parameter is made by an operation or has hooks, so that a pass over a part of a \
         shard cannot continue the sum of its gradient; use passes of whole shards"
    )]
    DerivedParameter {
        /// The operation that has the parameter.
        op: &'static str,
    },
    /// An argument that the operation does not take.
    #[error("{op}: {reason}")]
    Argument {
        /// The operation.
        op: &'static str,
        /// What was found and what was expected.
        reason: String,
    },
    /// A dimension that a tensor does not have, or a place that a dimension does not have.
    #[error("{op}: {reason}")]
    OutOfRange {
        /// The operation.
        op: &'static str,
        /// What was found, and of what.
        reason: String,
    },
    /// A saved tensor was changed in place before the backward pass read it.
    #[error(
        "{op}: the tensor {tensor} was changed in place after it was saved; change a copy, or \
         after the backward pass"
    )]
    Changed {
        /// The operation that saved it.
        op: &'static str,
        /// Its shape and where it comes from.
        tensor: String,
    },
    /// A change in place of a leaf, or of a view of one, that the tape would have to follow.
    #[error(
        "{op}: the tensor {tensor} is a leaf that requires a gradient, or a view of one; change it \
         within no_grad"
    )]
    LeafInPlace {
        /// The operation.
        op: &'static str,
        /// Its shape and where it comes from.
        tensor: String,
    },
    /// The tensor's memory was changed in place through another view, by an operation with a
    /// derivative, so that its place on the tape no longer tells how its values came about.
    #[error(
        "{op}: the tensor {tensor} was changed in place through another handle or view, which has \
         the history of its values; use that one, or detach this one"
    )]
    History {
        /// The operation.
        op: &'static str,
        /// Its shape and where it comes from.
        tensor: String,
    },
    /// A second derivative of an operation whose derivative is a kernel of its own.
    #[error("backward: {op} has no second derivative")]
    NoSecondDerivative {
        /// The operation.
        op: &'static str,
    },
    /// A parameter is used twice in a graph that holds only a part of the batch, so that the
    /// order of its gradient's sum would depend on how the batch was split.
    #[error(
        "{op}: the parameter {parameter} has a gradient from another operation of this graph; \
         with a part of the batch its sum would depend on the split"
    )]
    SharedParameter {
        /// The operation that would add the second gradient.
        op: &'static str,
        /// The parameter's name, or `(unnamed)`.
        parameter: String,
    },
    /// The backward pass starts from a tensor of more than one element without a gradient.
    #[error("backward: the tensor has shape {found:?}, expected one element or a given gradient")]
    NotScalar {
        /// The tensor's shape.
        found: Vec<usize>,
    },
    /// The backward pass starts from a tensor that depends on nothing that requires a gradient.
    #[error("backward: the tensor depends on nothing that requires a gradient")]
    NoGraph,
    /// The backward pass went through this part of the graph before, which freed what it saved.
    #[error("backward: {op} was differentiated before and its saved tensors are gone")]
    Freed {
        /// The operation.
        op: &'static str,
    },
    /// A derivative differs from the finite difference.
    #[error(
        "{op}: element {element} of input {input} has derivative {found}, finite differences \
         give {expected} (tolerance {tolerance})"
    )]
    GradCheck {
        /// The operation's name as given to the check.
        op: String,
        /// The input's index.
        input: usize,
        /// The element's index.
        element: usize,
        /// The derivative that the backward pass gave.
        found: f64,
        /// The finite difference.
        expected: f64,
        /// The allowed distance.
        tolerance: f64,
    },
    /// A function of the caller's, such as a hook or the derivative of an operation, has failed.
    #[error(transparent)]
    Foreign(Box<dyn std::error::Error + Send + Sync>),
    /// A kernel refused its arguments.
    #[error(transparent)]
    Kernel(#[from] KernelError),
    /// The device failed.
    #[error(transparent)]
    Core(#[from] CoreError),
}
