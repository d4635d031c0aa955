//! What can go wrong with a contract: each error names the contract, and the part of it.

use hlx_core::CoreError;
use hlx_store::{Handle, StoreError};
use thiserror::Error;

use hlx_kernels::KernelError;

/// An error of a contract or of its execution.
#[derive(Debug, Clone, Error)]
#[non_exhaustive]
pub enum ContractError {
    /// Text or bytes that are not a contract.
    #[error("no contract: {reason}")]
    Encoding {
        /// What is malformed, and where.
        reason: String,
    },
    /// A contract that contradicts itself, or the shader it names.
    #[error("{contract}: {reason}")]
    Invalid {
        /// The contract's name.
        contract: String,
        /// What was expected and what was found.
        reason: String,
    },
    /// An input or output that does not fit the shader's binding, or the tensor given for it.
    #[error("{contract}: binding {binding} ({name}): {reason}")]
    Binding {
        /// The contract's name.
        contract: String,
        /// The binding in descriptor set 0.
        binding: u32,
        /// The name of the input or output, or the shader's for it.
        name: String,
        /// What was expected and what was found.
        reason: String,
    },
    /// SPIR-V that is not valid, or not of the part of SPIR-V that contracts take.
    #[error("shader {shader}: the SPIR-V is refused: {reason}")]
    Spirv {
        /// The shader's handle.
        shader: Handle,
        /// The first fault.
        reason: String,
    },
    /// The device cannot run the contract.
    #[error("{contract}: {device} cannot run it: {reason}")]
    Device {
        /// The contract's name.
        contract: String,
        /// The device's name.
        device: String,
        /// What it lacks.
        reason: String,
    },
    /// The content store.
    #[error("{contract}: {source}")]
    Store {
        /// The contract's name.
        contract: String,
        /// The store's message.
        source: StoreError,
    },
    /// The device's memory, queue or driver.
    #[error("{contract}: {source}")]
    Core {
        /// The contract's name.
        contract: String,
        /// The device's message.
        source: CoreError,
    },
    /// A kernel's CPU twin.
    #[error("{contract}: {source}")]
    Kernel {
        /// The contract's name.
        contract: String,
        /// The kernel's message.
        source: KernelError,
    },
}

impl ContractError {
    pub(crate) fn invalid(contract: &str, reason: impl Into<String>) -> Self {
        Self::Invalid {
            contract: contract.to_owned(),
            reason: reason.into(),
        }
    }

    /// Returns a function that makes a [`ContractError::Store`], for `map_err`.
    pub(crate) fn store(contract: &str) -> impl FnOnce(StoreError) -> Self {
        |source| Self::Store {
            contract: contract.to_owned(),
            source,
        }
    }

    /// Returns a function that makes a [`ContractError::Core`], for `map_err`.
    pub(crate) fn core(contract: &str) -> impl FnOnce(CoreError) -> Self {
        |source| Self::Core {
            contract: contract.to_owned(),
            source,
        }
    }
}
