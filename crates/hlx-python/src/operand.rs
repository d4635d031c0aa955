//! The other operand of an operation: a tensor, or a number of Python.

use hlx_autograd::{Operand, Result, Tensor};
use hlx_core::DType;
use pyo3::prelude::*;

use crate::create::from_data;
use crate::error::type_error;
use crate::number::Number;
use crate::tensor::PyTensor;
use crate::wait::run;

/// The other operand of an operation.
#[derive(Clone)]
pub enum Other {
    Tensor(Tensor),
    Number(Number),
}

impl Other {
    /// An operand, unless it is neither a tensor nor a number.
    pub fn of(value: &Bound<'_, PyAny>) -> Option<Self> {
        match value.cast::<PyTensor>() {
            Ok(tensor) => Some(Self::Tensor(tensor.get().handle())),
            Err(_) => Number::of(value).map(Self::Number),
        }
    }

    /// An operand beside a tensor: an array of NumPy's too, which is copied to the tensor's device.
    ///
    /// # Errors
    /// For an array that HLX cannot read.
    pub fn beside_tensor(value: &Bound<'_, PyAny>, x: &Tensor) -> PyResult<Option<Self>> {
        match Self::of(value) {
            None if value.hasattr("__array_interface__")? => {
                let array = from_data(value, None, x.device(), "hlx")?;
                Ok(Some(Self::Tensor(array)))
            }
            other => Ok(other),
        }
    }

    /// An operand.
    ///
    /// # Errors
    /// If it is neither a tensor nor a number.
    pub fn expected(operation: &str, value: &Bound<'_, PyAny>) -> PyResult<Self> {
        match Self::of(value) {
            Some(other) => Ok(other),
            None => {
                let found = value.get_type().name()?;
                let text =
                    format!("{operation}: an operand is a {found}, expected a tensor or a number");
                Err(type_error(text))
            }
        }
    }

    /// The operand as a tensor beside another one.
    ///
    /// # Errors
    /// As [`Number::beside`] and [`near`].
    pub fn beside(self, x: &Tensor) -> PyResult<Tensor> {
        match self {
            Self::Tensor(tensor) => near(tensor, x),
            Self::Number(number) => number.beside(x),
        }
    }

    /// The operand beside another one, a float as a number, which operations have short ways for.
    pub fn prepared(self, x: &Tensor) -> PyResult<Prepared> {
        match self {
            Self::Number(number @ (Number::Float(_) | Number::Int(_)))
                if x.dtype() == DType::F32 =>
            {
                Ok(Prepared::Number(number.as_f64() as f32))
            }
            other => Ok(Prepared::Tensor(other.beside(x)?)),
        }
    }
}

/// A tensor for an operation with another one: without dimensions and on the CPU it is like a number, as in PyTorch, and
/// is copied to the device of the other.
///
/// # Errors
/// What the device reports.
pub fn near(tensor: Tensor, other: &Tensor) -> PyResult<Tensor> {
    let device = other.device();
    if !tensor.shape().is_empty() || !tensor.device().is_cpu() || device.is_cpu() {
        return Ok(tensor);
    }
    let device = device.clone();
    Python::attach(|py| run(py, move || tensor.to(&device)))
}

/// An operand that is ready for [`Tensor`]'s methods.
pub enum Prepared {
    Tensor(Tensor),
    Number(f32),
}

impl Operand for Prepared {
    fn beside(self, other: &Tensor) -> Result<Tensor> {
        match self {
            Self::Tensor(tensor) => Ok(tensor),
            Self::Number(number) => number.beside(other),
        }
    }

    fn as_f32(&self) -> Option<f32> {
        match self {
            Self::Tensor(_) => None,
            Self::Number(number) => Some(*number),
        }
    }
}
