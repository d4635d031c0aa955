//! Numbers of Python, and of libraries whose numbers are like them.

use hlx_autograd::{Result, Tensor};
use hlx_core::{DType, Device};
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyFloat, PyInt};

use crate::error::{of_tensor, value_error};
use crate::gate;

/// A number of Python.
#[derive(Clone, Copy, Debug)]
pub enum Number {
    Bool(bool),
    Int(i64),
    Float(f64),
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
        let _pass = Python::attach(gate::pass)?;
        let made = match self {
            Self::Float(float) => Tensor::full(device, &[], float as f32, DType::F32),
            Self::Int(integer) if dtype.is_float() => {
                Tensor::full(device, &[], integer as f32, DType::F32)
            }
            Self::Int(integer) => match i32::try_from(integer) {
                Ok(integer) => filled(device, DType::I32, integer as u32),
                Err(_) if dtype == DType::U32 && u32::try_from(integer).is_ok() => {
                    filled(device, DType::U32, integer as u32)
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

/// A tensor without dimensions of one word, which is filled and not uploaded, so that it may be recorded.
pub fn filled(device: &Device, dtype: DType, word: u32) -> Result<Tensor> {
    let buffer = device.alloc_typed(dtype, 1)?;
    device.fill(&buffer, word)?;
    Tensor::from_buffer(device, buffer, &[])
}
