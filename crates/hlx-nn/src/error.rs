//! What can go wrong with models, optimizers and their files.

use std::path::Path;

use hlx_autograd::AutogradError;
use hlx_core::CoreError;
use hlx_kernels::KernelError;
use thiserror::Error;

/// An error of a layer, a model, an optimizer or a model file.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum NnError {
    /// A configuration that no model can have.
    #[error("{what}: {reason}")]
    Config {
        /// The configuration, such as `transformer`.
        what: &'static str,
        /// The value and what was expected.
        reason: String,
    },
    /// Two parameters of one name.
    #[error("parameter {name} is declared twice")]
    DuplicateParameter {
        /// The name.
        name: String,
    },
    /// A layer is used before the builder that it was declared to has been built.
    #[error("parameter {name} has no values yet: build the parameters first")]
    NotBuilt {
        /// The parameter's name.
        name: String,
    },
    /// A parameter has no gradient: no backward pass has reached it.
    #[error("optimizer step: parameter {name} has no gradient")]
    MissingGradient {
        /// The parameter's name.
        name: String,
    },
    /// An input's shape does not fit the model or the forward mode.
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
    /// A batch cannot be cut into these micro-batches or shards.
    #[error("micro-batches: {reason}")]
    MicroBatches {
        /// The numbers that do not fit.
        reason: String,
    },
    /// Other processes of the same run no longer answer.
    #[error("{reason}")]
    Exchange {
        /// Which, on which host, and why.
        reason: String,
    },
    /// Tokens that a key/value cache has no place for.
    #[error("key/value cache: {reason}")]
    Cache {
        /// The numbers that do not fit.
        reason: String,
    },
    /// Named values (a model file, an optimizer's state) that are not this model's.
    #[error("{what}: {reason}")]
    Mismatch {
        /// What was loaded.
        what: String,
        /// The first tensor that does not fit, and how.
        reason: String,
    },
    /// A file could not be read or written.
    #[error("{path}: {reason}")]
    File {
        /// The file.
        path: String,
        /// The message of the system or of the parser.
        reason: String,
    },
    /// An operation on tensors failed.
    #[error(transparent)]
    Autograd(#[from] AutogradError),
    /// A kernel refused its arguments.
    #[error(transparent)]
    Kernel(#[from] KernelError),
    /// The device failed.
    #[error(transparent)]
    Core(#[from] CoreError),
}

impl NnError {
    /// Makes an [`NnError::File`] from a path and anything that can be shown.
    pub(crate) fn file(path: &Path, reason: impl ToString) -> Self {
        Self::File {
            path: path.display().to_string(),
            reason: reason.to_string(),
        }
    }

    /// Makes an [`NnError::Mismatch`].
    pub(crate) fn mismatch(what: &str, reason: impl Into<String>) -> Self {
        Self::Mismatch {
            what: what.to_owned(),
            reason: reason.into(),
        }
    }
}
