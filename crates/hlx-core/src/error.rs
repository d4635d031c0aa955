//! What can go wrong below the kernels: one error type, one clear line each.

use thiserror::Error;

/// An error of devices, memory, streams, graphs or files of `hlx-core`.
#[derive(Debug, Clone, Error)]
#[non_exhaustive]
pub enum CoreError {
    /// The device text names no device: not `auto`, `cpu`, `vulkan` or `vulkan:N`.
    #[error("device `{found}` is unknown: expected auto, cpu, vulkan or vulkan:N")]
    UnknownDevice {
        /// What was requested.
        found: String,
    },
    /// The requested device is not on this machine.
    #[error("no device `{asked}` on this machine: {available}")]
    NoSuchDevice {
        /// What was requested.
        asked: String,
        /// What there is.
        available: String,
    },
    /// The device fails the arithmetic probe and is refused for the `portable` arithmetic.
    #[error("device `{device}` is refused for the portable arithmetic: {failure}")]
    ProbeFailed {
        /// The device's name.
        device: String,
        /// The first check that failed, with inputs and bits.
        failure: String,
    },
    /// The device has less memory than requested.
    #[error(
        "out of memory on {device}: {requested} bytes asked for, {in_use} bytes in use of a budget of {budget} bytes"
    )]
    OutOfMemory {
        /// The device's name.
        device: String,
        /// Bytes requested.
        requested: u64,
        /// Bytes that HLX holds on the device.
        in_use: u64,
        /// Bytes that the driver or the machine grants.
        budget: u64,
    },
    /// The device was lost (a crash, a reset, a removal); its contents are gone.
    #[error("device `{device}` was lost during {during}; checkpoints on disk are whole{hint}")]
    DeviceLost {
        /// The device's name.
        device: String,
        /// What was being done.
        during: String,
        /// The probable cause and what helps, after a semicolon; empty where it is not known.
        hint: String,
    },
    /// A Vulkan call failed.
    #[error("{during}: Vulkan answered {reason}")]
    Vulkan {
        /// What was being done.
        during: String,
        /// The message of the driver or of vulkano.
        reason: String,
    },
    /// A kernel found an index out of range, some time before the call that reports it.
    #[error("{operation}: element {place} of the index is out of range")]
    Fault {
        /// The operation's name.
        operation: &'static str,
        /// The row-major number of the first such element in the index tensor.
        place: u32,
    },
    /// A buffer of one device was given to another.
    #[error("{operation}: {argument} belongs to {found}, expected {expected}")]
    OtherDevice {
        /// The operation's name.
        operation: String,
        /// Which of its arguments.
        argument: String,
        /// The device that the buffer belongs to.
        found: String,
        /// The device that carries out the operation.
        expected: String,
    },
    /// A launch, copy, window or transfer with wrong arguments.
    #[error("{operation}: {reason}")]
    Invalid {
        /// The operation's name.
        operation: String,
        /// What was expected and what was found.
        reason: String,
    },
    /// An environment variable has a value that means nothing.
    #[error("{name}={found}: expected {expected}")]
    Variable {
        /// The variable.
        name: String,
        /// Its value.
        found: String,
        /// What it may be.
        expected: String,
    },
    /// A file could not be read or written.
    #[error("{path}: {reason}")]
    Io {
        /// The file.
        path: String,
        /// The system's message.
        reason: String,
    },
}

impl CoreError {
    /// Makes an [`CoreError::Invalid`] from the operation's name and what is wrong.
    pub fn invalid(operation: &str, reason: impl Into<String>) -> Self {
        Self::Invalid {
            operation: operation.to_owned(),
            reason: reason.into(),
        }
    }
}
