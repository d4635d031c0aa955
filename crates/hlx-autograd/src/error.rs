//! The errors of the tape: every variant names the operation and what it found.

use hlx_core::CoreError;
use hlx_kernels::KernelError;
use thiserror::Error;

use crate::tensor::DataType;

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
    /// An argument holds ids where values are needed, or values where ids are needed.
    #[error("{op}: {argument} holds {found}, expected {expected}")]
    DataType {
        /// The operation.
        op: &'static str,
        /// The argument.
        argument: &'static str,
        /// What it holds.
        found: DataType,
        /// What is needed.
        expected: DataType,
    },
    /// The arguments of an operation are of two contexts.
    #[error("{op}: {argument} belongs to {found}, self to {expected}")]
    Context {
        /// The operation.
        op: &'static str,
        /// The argument.
        argument: &'static str,
        /// Its context.
        found: String,
        /// The context of the tensor whose method was called.
        expected: String,
    },
    /// The plan's shards do not divide the batch of an operation with parameters.
    #[error("{op}: {shards} shards do not divide a batch of {batch}")]
    Shards {
        /// The operation.
        op: &'static str,
        /// The plan's shards.
        shards: usize,
        /// The leading dimension of the operation's input.
        batch: usize,
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
    /// A kernel refused its arguments.
    #[error(transparent)]
    Kernel(#[from] KernelError),
    /// The device failed.
    #[error(transparent)]
    Core(#[from] CoreError),
}
