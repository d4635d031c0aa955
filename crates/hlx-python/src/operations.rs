//! The operations of [`hlx_autograd::Tensor`], one function each: names and order of arguments are Rust's.

pub mod attention;
pub mod elementwise;
pub mod images;
pub mod indexing;
pub mod joining;
pub mod losses;
pub mod movement;
pub mod norms;
pub mod products;
pub mod recurrent;
pub mod reductions;

use std::ops::Deref;

use hlx_autograd::{DType, Result, Tensor};
use pyo3::prelude::*;

use crate::arguments::as_they_are;
use crate::error::type_error;
use crate::tensor::PyTensor;

/// A tensor as an argument.
pub struct Handle(pub Tensor);

impl Deref for Handle {
    type Target = Tensor;

    fn deref(&self) -> &Tensor {
        &self.0
    }
}

impl<'py> FromPyObject<'_, 'py> for Handle {
    type Error = PyErr;

    fn extract(object: Borrowed<'_, 'py, PyAny>) -> PyResult<Self> {
        match object.cast::<PyTensor>() {
            Ok(tensor) => Ok(Self(tensor.get().handle())),
            Err(_) => {
                let found = object.get_type().name()?;
                Err(type_error(format!(
                    "hlx: an argument is a {found}, expected a tensor"
                )))
            }
        }
    }
}

as_they_are!(
    Handle,
    Option<Handle>,
    Option<(Handle, Handle)>,
    Vec<Option<Handle>>
);

/// The tensors of a list.
pub fn borrowed(tensors: &[Handle]) -> Vec<&Tensor> {
    tensors.iter().map(|tensor| &tensor.0).collect()
}

/// Places as Python has them: int32, where Rust's are u32.
pub fn places(found: Tensor) -> Result<Tensor> {
    match found.dtype() {
        DType::U32 => found.to_dtype(DType::I32),
        _ => Ok(found),
    }
}

/// Two results, the second of which are places.
pub fn with_places(found: (Tensor, Tensor)) -> Result<(Tensor, Tensor)> {
    Ok((found.0, places(found.1)?))
}

/// Two tensors of Python.
pub fn pair((one, two): (Tensor, Tensor)) -> (PyTensor, PyTensor) {
    (one.into(), two.into())
}

/// Functions of a tensor that launch.
macro_rules! launched {
    ($($(#[$documentation:meta])* $name:ident($x:ident $(, $argument:ident: $type:ty)*) $body:expr;)+) => {
        $(
            $(#[$documentation])*
            #[pyfunction]
            pub fn $name(py: Python<'_>, $x: &PyTensor $(, $argument: <$type as crate::arguments::Argument>::Given)*) -> PyResult<PyTensor> {
                $(let $argument = <$type as crate::arguments::Argument>::of($argument, stringify!($name), stringify!($argument))?;)*
                $x.apply(py, move |$x| $body)
            }
        )+
    };
}
pub(crate) use launched;

/// Functions of a tensor that are views, or may be.
macro_rules! viewed {
    ($($(#[$documentation:meta])* $name:ident($x:ident $(, $argument:ident: $type:ty)*) $body:expr;)+) => {
        $(
            $(#[$documentation])*
            #[pyfunction]
            pub fn $name($x: Bound<'_, PyTensor> $(, $argument: <$type as crate::arguments::Argument>::Given)*) -> PyResult<PyTensor> {
                $(let $argument = <$type as crate::arguments::Argument>::of($argument, stringify!($name), stringify!($argument))?;)*
                let handle = $x.get().handle();
                let made = crate::wait::run_at_once(|| {
                    let $x = &handle;
                    $body
                })?;
                Ok(PyTensor::of(&$x, made))
            }
        )+
    };
}
pub(crate) use viewed;

/// Functions of a tensor that give two, the second of which are places.
macro_rules! placed {
    ($($(#[$documentation:meta])* $name:ident($x:ident $(, $argument:ident: $type:ty)*) $body:expr;)+) => {
        $(
            $(#[$documentation])*
            #[pyfunction]
            pub fn $name(py: Python<'_>, $x: &PyTensor $(, $argument: <$type as crate::arguments::Argument>::Given)*) -> PyResult<(PyTensor, PyTensor)> {
                $(let $argument = <$type as crate::arguments::Argument>::of($argument, stringify!($name), stringify!($argument))?;)*
                let $x = $x.handle();
                let found = crate::wait::run(py, move || super::with_places($body?))?;
                Ok(super::pair(found))
            }
        )+
    };
}
pub(crate) use placed;
