//! `hlx.dtype`: the types of elements, and names of types that HLX does not store.

use std::cell::Cell;

use hlx_core::DType;
use pyo3::prelude::*;

use crate::error::{type_error, value_error};

/// What a name of a type stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A type that tensors have.
    Stored(DType),
    /// Values of these types are narrowed to int32, with a check.
    Int16,
    Int64,
    /// Refused.
    Float64,
}

/// The type of a tensor's elements.
#[pyclass(frozen, name = "dtype", module = "hlx", eq, hash)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct PyDType(u8);

const ALL: [(Kind, &str); 11] = [
    (Kind::Stored(DType::F32), "float32"),
    (Kind::Stored(DType::F16), "float16"),
    (Kind::Stored(DType::BF16), "bfloat16"),
    (Kind::Stored(DType::I32), "int32"),
    (Kind::Stored(DType::U32), "uint32"),
    (Kind::Stored(DType::I8), "int8"),
    (Kind::Stored(DType::U8), "uint8"),
    (Kind::Stored(DType::Bool), "bool"),
    (Kind::Int16, "int16"),
    (Kind::Int64, "int64"),
    (Kind::Float64, "float64"),
];

impl From<DType> for PyDType {
    fn from(dtype: DType) -> Self {
        // The stored types come in DType's own order.
        Self(dtype.id() as u8)
    }
}

impl PyDType {
    pub fn kind(self) -> Kind {
        ALL[usize::from(self.0)].0
    }

    pub fn name(self) -> &'static str {
        ALL[usize::from(self.0)].1
    }

    /// The type that tensors of this one have.
    ///
    /// # Errors
    /// For float64.
    pub fn stored(self, operation: &str) -> PyResult<DType> {
        match self.kind() {
            Kind::Stored(dtype) => Ok(dtype),
            Kind::Int16 | Kind::Int64 => Ok(DType::I32),
            Kind::Float64 => Err(no_float64(operation)),
        }
    }
}

thread_local! {
    /// The type of new tensors of Python's floats.
    static DEFAULT: Cell<DType> = const { Cell::new(DType::F32) };
}

/// The type of new tensors of Python's floats on this thread.
pub fn default_float() -> DType {
    DEFAULT.get()
}

/// The type of new tensors of Python's floats on this thread.
#[pyfunction]
pub fn default_dtype() -> PyDType {
    default_float().into()
}

/// Sets it.
#[pyfunction]
pub fn set_default_dtype(dtype: &PyDType) -> PyResult<()> {
    DEFAULT.set(dtype.stored("set_default_dtype")?);
    Ok(())
}

/// The refusal of float64.
pub fn no_float64(operation: &str) -> PyErr {
    type_error(format!(
        "{operation}: HLX has no float64; use dtype=hlx.float32"
    ))
}

#[pymethods]
impl PyDType {
    /// The type of this name, such as `"float32"`.
    #[new]
    fn new(name: &str) -> PyResult<Self> {
        let place = ALL.iter().position(|(_, other)| *other == name);
        let names = || ALL.map(|(_, name)| name).join(", ");
        match place {
            Some(place) => Ok(Self(place as u8)),
            None => Err(value_error(format!(
                "dtype: is {name:?}, expected one of {}",
                names()
            ))),
        }
    }

    /// Bytes of an element.
    #[getter]
    fn itemsize(&self) -> usize {
        match self.kind() {
            Kind::Stored(dtype) => dtype.size(),
            Kind::Int16 => 2,
            Kind::Int64 | Kind::Float64 => 8,
        }
    }

    /// Whether it is a float.
    #[getter]
    fn is_floating_point(&self) -> bool {
        match self.kind() {
            Kind::Stored(dtype) => dtype.is_float(),
            kind => kind == Kind::Float64,
        }
    }

    /// Whether it is complex: never.
    #[getter]
    fn is_complex(&self) -> bool {
        false
    }

    /// Whether it has negative numbers.
    #[getter]
    fn is_signed(&self) -> bool {
        !matches!(
            self.kind(),
            Kind::Stored(DType::U8 | DType::U32 | DType::Bool)
        )
    }

    fn __repr__(&self) -> String {
        format!("hlx.{}", self.name())
    }

    fn __reduce__(&self, py: Python<'_>) -> PyResult<(Py<PyAny>, (&'static str,))> {
        Ok((py.get_type::<Self>().into_any().unbind(), (self.name(),)))
    }
}
