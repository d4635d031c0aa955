//! Arguments of operations: a tensor, or a number of Python.

use hlx_autograd::{Operand, Result, Tensor};
use hlx_core::{DType, Device};
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyFloat, PyInt};

use crate::create::from_data;
use crate::error::{of_tensor, type_error, value_error};
use crate::tensor::PyTensor;

/// A number of Python.
#[derive(Clone, Copy, Debug)]
pub enum Number {
    Bool(bool),
    Int(i64),
    Float(f64),
}

/// The other operand of an operation.
#[derive(Clone)]
pub enum Other {
    Tensor(Tensor),
    Number(Number),
}

impl Number {
    /// A number, unless it is something else; integers past 64 bits are floats, as their kind is all that they decide
    /// beside a float.
    pub fn of(value: &Bound<'_, PyAny>) -> Option<Self> {
        if let Ok(float) = value.cast::<PyFloat>() {
            return Some(Self::Float(float.value()));
        }
        if let Ok(truth) = value.cast::<PyBool>() {
            return Some(Self::Bool(truth.is_true()));
        }
        if value.is_instance_of::<PyInt>() {
            let whole = value.extract::<i64>().map(Self::Int);
            return whole.or_else(|_| value.extract().map(Self::Float)).ok();
        }
        Self::of_scalar(value)
    }

    /// A number of another library, such as NumPy's scalars: by its methods, and its type's name for truth values.
    fn of_scalar(value: &Bound<'_, PyAny>) -> Option<Self> {
        let class = value.get_type();
        if value.hasattr("shape").ok()? && !value.getattr("shape").ok()?.len().is_ok_and(|n| n == 0)
        {
            return None;
        }
        if class.name().ok()?.to_str().ok()?.starts_with("bool") {
            return value.is_truthy().ok().map(Self::Bool);
        }
        if value.hasattr("__index__").ok()? {
            return value
                .call_method0("__index__")
                .ok()?
                .extract()
                .ok()
                .map(Self::Int);
        }
        match value.hasattr("__float__").ok()? {
            true => value
                .call_method0("__float__")
                .ok()?
                .extract()
                .ok()
                .map(Self::Float),
            false => None,
        }
    }

    pub fn as_f64(self) -> f64 {
        match self {
            Self::Bool(truth) => f64::from(u8::from(truth)),
            Self::Int(whole) => whole as f64,
            Self::Float(float) => float,
        }
    }

    /// The number as a tensor without dimensions, beside a tensor `x`: beside floats an integer is a float, which
    /// holds more; beside another tensor without dimensions the number decides the kind of the type alone.
    ///
    /// # Errors
    /// For an integer that int32 does not hold, beside integers.
    pub fn beside(self, x: &Tensor) -> PyResult<Tensor> {
        let number = self.on(x.device(), x.dtype())?;
        let same_kind = number.dtype().is_float() == x.dtype().is_float()
            && number.dtype() != DType::Bool
            && x.dtype() != DType::Bool;
        match x.rank() == 0 && same_kind && number.dtype() != x.dtype() {
            true => number.to_dtype(x.dtype()).map_err(of_tensor),
            false => Ok(number),
        }
    }

    /// The number as a tensor without dimensions, for a tensor of a type.
    ///
    /// # Errors
    /// As [`Number::beside`].
    pub fn on(self, device: &Device, dtype: DType) -> PyResult<Tensor> {
        let whole = |value: i32| Tensor::from_slice(device, &[value], &[]);
        let made = match self {
            Self::Float(float) => Tensor::full(device, &[], float as f32, DType::F32),
            Self::Int(integer) if dtype.is_float() => {
                Tensor::full(device, &[], integer as f32, DType::F32)
            }
            Self::Int(integer) => match i32::try_from(integer) {
                Ok(integer) => whole(integer),
                Err(_) if dtype == DType::U32 && u32::try_from(integer).is_ok() => {
                    Tensor::from_slice(device, &[integer as u32], &[])
                }
                Err(_) => {
                    return Err(value_error(format!(
                        "hlx: {integer} does not fit into int32"
                    )));
                }
            },
            Self::Bool(truth) => Tensor::full(device, &[], f32::from(u8::from(truth)), DType::Bool),
        };
        made.map_err(of_tensor)
    }
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
    /// As [`Number::beside`].
    pub fn beside(self, x: &Tensor) -> PyResult<Tensor> {
        match self {
            Self::Tensor(tensor) => Ok(tensor),
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
