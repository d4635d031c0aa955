//! Errors of HLX as Python's: `hlx.errors.ValueError` and its like, which are both `hlx.Error` and the built-in class.

use hlx_autograd::AutogradError;
use hlx_core::CoreError;
use hlx_io::IoError;
use hlx_kernels::KernelError;
use hlx_nn::NnError;
use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;

/// The classes of `hlx.errors`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Value,
    Type,
    Index,
    Runtime,
    Memory,
    Buffer,
    NotImplemented,
}

impl Kind {
    const ALL: [Self; 7] = [
        Self::Value,
        Self::Type,
        Self::Index,
        Self::Runtime,
        Self::Memory,
        Self::Buffer,
        Self::NotImplemented,
    ];

    fn name(self) -> &'static str {
        match self {
            Self::Value => "ValueError",
            Self::Type => "TypeError",
            Self::Index => "IndexError",
            Self::Runtime => "RuntimeError",
            Self::Memory => "MemoryError",
            Self::Buffer => "BufferError",
            Self::NotImplemented => "NotImplementedError",
        }
    }

    fn of_core(error: &CoreError) -> Self {
        match error {
            CoreError::OutOfMemory { .. } => Self::Memory,
            CoreError::Fault { .. } => Self::Index,
            CoreError::UnknownDevice { .. }
            | CoreError::OtherDevice { .. }
            | CoreError::Invalid { .. }
            | CoreError::Variable { .. } => Self::Value,
            _ => Self::Runtime,
        }
    }

    fn of_kernel(error: &KernelError) -> Self {
        match error {
            KernelError::Core(error) => Self::of_core(error),
            _ => Self::Value,
        }
    }
}

/// An exception of one of HLX's classes.
pub fn raised(kind: Kind, message: impl Into<String>) -> PyErr {
    static CLASSES: PyOnceLock<Vec<Py<PyAny>>> = PyOnceLock::new();
    let message = message.into();
    Python::attach(|py| {
        let classes = CLASSES.get_or_try_init(py, || {
            let module = py.import("hlx.errors")?;
            Kind::ALL
                .iter()
                .map(|kind| Ok(module.getattr(kind.name())?.unbind()))
                .collect::<PyResult<_>>()
        });
        let instance =
            classes.and_then(|classes| classes[kind as usize].bind(py).call1((&message,)));
        match instance {
            Ok(instance) => PyErr::from_value(instance),
            Err(_) => PyRuntimeError::new_err(message),
        }
    })
}

/// Shorthand for the most frequent one.
pub fn value_error(message: impl Into<String>) -> PyErr {
    raised(Kind::Value, message)
}

/// Shorthand for a wrong type.
pub fn type_error(message: impl Into<String>) -> PyErr {
    raised(Kind::Type, message)
}

/// The exception for an error of a tensor.
pub fn of_tensor(error: AutogradError) -> PyErr {
    let kind = match &error {
        AutogradError::DType { .. } => Kind::Type,
        AutogradError::OutOfRange { .. } => Kind::Index,
        AutogradError::Kernel(error) => Kind::of_kernel(error),
        AutogradError::Core(error) => Kind::of_core(error),
        AutogradError::Changed { .. }
        | AutogradError::LeafInPlace { .. }
        | AutogradError::History { .. }
        | AutogradError::NoSecondDerivative { .. }
        | AutogradError::NoGraph
        | AutogradError::NotScalar { .. }
        | AutogradError::Freed { .. } => Kind::Runtime,
        _ => Kind::Value,
    };
    match error {
        AutogradError::Foreign(error) => match error.downcast::<PyErr>() {
            Ok(error) => *error,
            Err(error) => raised(Kind::Runtime, error.to_string()),
        },
        error => raised(kind, error.to_string()),
    }
}

/// The exception for an error of a device.
pub fn of_core(error: CoreError) -> PyErr {
    raised(Kind::of_core(&error), error.to_string())
}

/// The exception for an error of a conversion or a file.
pub fn of_io(error: IoError) -> PyErr {
    match error {
        IoError::Tensor(error) => of_tensor(error),
        other => value_error(other.to_string()),
    }
}

/// An exception of Python as an error of a tensor, for functions that operations call.
pub fn foreign(error: PyErr) -> AutogradError {
    AutogradError::Foreign(Box::new(error))
}

/// The exception for an error of hlx-nn.
pub fn of_nn(error: NnError) -> PyErr {
    match error {
        NnError::Autograd(error) => of_tensor(error),
        NnError::Kernel(error) => of_tensor(error.into()),
        NnError::Core(error) => of_core(error),
        error @ NnError::MissingGradient { .. } => raised(Kind::Runtime, error.to_string()),
        error => value_error(error.to_string()),
    }
}

/// The exception for an error of hlx-train, whose class is that of the error it began with.
pub fn of_anyhow(error: anyhow::Error) -> PyErr {
    let error = match error.downcast::<AutogradError>() {
        Ok(error) => return of_tensor(error),
        Err(error) => error,
    };
    let kind = if let Some(error) = error.downcast_ref::<CoreError>() {
        Kind::of_core(error)
    } else if let Some(NnError::Core(error)) = error.downcast_ref::<NnError>() {
        Kind::of_core(error)
    } else {
        Kind::Value
    };
    raised(kind, format!("{error:#}"))
}
