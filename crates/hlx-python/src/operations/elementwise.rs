//! Operations element by element.

use hlx_autograd::{Result, Rounding, Tensor, Unary};
use pyo3::prelude::*;

use super::{Handle, launched};
use crate::autograd::lasting;
use crate::error::{type_error, value_error};
use crate::operand::Other;
use crate::protocols::operators::{self, named_binary};
use crate::tensor::PyTensor;
use crate::wait::run;

/// A function of one element by its name.
fn named(name: &str) -> PyResult<Unary> {
    macro_rules! names {
        ($($(#[$documentation:meta])* $name:ident $variant:ident $is_bool:literal
           [$($f32:ident $($with:ident)?)?] [$($i32:ident $($iwith:ident)?)?] [$($u32:ident $($uwith:ident)?)?];)+) => {
            match name {
                $(stringify!($name) => Ok(Unary::$variant),)+
                _ => Err(value_error(format!("unary: there is no function {name:?}"))),
            }
        };
    }
    hlx_kernels::for_each_unary!(names)
}

/// An activation of this name, which has a kernel of its own.
fn activation(x: &Tensor, name: &str) -> Option<Result<Tensor>> {
    macro_rules! names {
        ($($(#[$documentation:meta])* $name:ident $variant:ident $forward:ident $backward:ident;)+) => {
            match name {
                $(stringify!($name) => Some(x.$name()),)+
                _ => None,
            }
        };
    }
    hlx_kernels::for_each_activation!(names)
}

/// Computes a function of each element by its name, which may have two parameters.
#[pyfunction]
#[pyo3(signature = (x, name, a = 0.0, b = 0.0))]
pub fn unary(py: Python<'_>, x: &PyTensor, name: &str, a: f32, b: f32) -> PyResult<PyTensor> {
    let function = named(name)?;
    x.apply(py, move |x| {
        activation(x, name).unwrap_or_else(|| x.unary(function, [a, b]))
    })
}

/// Computes an operation of two operands by its name; one of them may be a number.
#[pyfunction]
pub fn binary(
    py: Python<'_>,
    x: &Bound<'_, PyAny>,
    other: &Bound<'_, PyAny>,
    name: &str,
) -> PyResult<PyTensor> {
    let (x, y) = (Other::expected(name, x)?, Other::expected(name, other)?);
    match name {
        "pow" => operators::power(py, x, y),
        _ => operators::binary(py, named_binary(name)?, x, y),
    }
}

/// Writes the result of an operation of two operands by its name into x's memory, and returns x.
#[pyfunction]
pub fn binary_<'py>(
    x: Bound<'py, PyTensor>,
    other: &Bound<'py, PyAny>,
    name: &str,
) -> PyResult<Bound<'py, PyTensor>> {
    let label = lasting(&format!("{name}_"));
    operators::binary_in_place(&x, named_binary(name)?, label, other)?;
    Ok(x)
}

/// Writes a function of each element by its name into x's memory, and returns x.
#[pyfunction]
pub fn unary_<'py>(x: Bound<'py, PyTensor>, name: &str) -> PyResult<Bound<'py, PyTensor>> {
    let (function, label) = (named(name)?, lasting(&format!("{name}_")));
    x.get().write(x.py(), label, |x| {
        activation(x, name).unwrap_or_else(|| x.unary(function, [0.0; 2]))
    })?;
    Ok(x)
}

/// x + alpha other.
#[pyfunction]
pub fn add_scaled(
    py: Python<'_>,
    x: &Bound<'_, PyAny>,
    other: &Bound<'_, PyAny>,
    alpha: &Bound<'_, PyAny>,
) -> PyResult<PyTensor> {
    let (x, y) = operators::pair(Other::expected("add", x)?, Other::expected("add", other)?)?;
    let alpha = Other::expected("add", alpha)?.beside(&y)?;
    run(py, move || x.add_scaled(&y, &alpha)).map(PyTensor::from)
}

/// x / other, rounded: `floor` or `trunc`.
#[pyfunction]
pub fn div_rounded(
    py: Python<'_>,
    x: &Bound<'_, PyAny>,
    other: &Bound<'_, PyAny>,
    rounding: &str,
) -> PyResult<PyTensor> {
    let rounding = match rounding {
        "floor" => Rounding::Floor,
        "trunc" => Rounding::Trunc,
        other => {
            let text =
                format!("div: rounding_mode is {other:?}, expected None, 'floor' or 'trunc'");
            return Err(value_error(text));
        }
    };
    let (x, y) = operators::pair(Other::expected("div", x)?, Other::expected("div", other)?)?;
    run(py, move || x.div_rounded(&y, rounding)).map(PyTensor::from)
}

/// The larger of x and a bound, whose gradient is PyTorch's of `clamp`.
#[pyfunction]
pub fn clamp_min(py: Python<'_>, x: &PyTensor, low: &Bound<'_, PyAny>) -> PyResult<PyTensor> {
    let (x, low) = (
        x.handle(),
        Other::expected("clamp", low)?.beside(&x.handle())?,
    );
    run(py, move || x.clamp_min(&low)).map(PyTensor::from)
}

/// The smaller of x and a bound.
#[pyfunction]
pub fn clamp_max(py: Python<'_>, x: &PyTensor, high: &Bound<'_, PyAny>) -> PyResult<PyTensor> {
    let (x, high) = (
        x.handle(),
        Other::expected("clamp", high)?.beside(&x.handle())?,
    );
    run(py, move || x.clamp_max(&high)).map(PyTensor::from)
}

/// x where the condition holds, else the other.
#[pyfunction]
pub fn where_(
    py: Python<'_>,
    x: &Bound<'_, PyAny>,
    condition: Handle,
    other: &Bound<'_, PyAny>,
) -> PyResult<PyTensor> {
    let (x, y) = (
        Other::expected("where", x)?,
        Other::expected("where", other)?,
    );
    let (x, y) = match (x, y) {
        (Other::Number(x), Other::Number(y)) => {
            // Two numbers decide the type by themselves.
            let of =
                |number: crate::number::Number| number.on(condition.device(), hlx_core::DType::I32);
            (of(x)?, of(y)?)
        }
        (x, y) => operators::pair(x, y)?,
    };
    run(py, move || x.where_(&condition, &y)).map(PyTensor::from)
}

launched! {
    /// x with a value where the mask holds.
    masked_fill(x, mask: Handle, value: f32) x.masked_fill(&mask, value);
    /// log(1 + e^(beta x)) / beta, and x where beta x passes the threshold.
    softplus_with(x, beta: f32, threshold: f32) x.softplus_with(beta, threshold);
}

/// Writes what a function returns for x into x's memory, and returns x.
#[pyfunction]
pub fn in_place<'py>(
    x: Bound<'py, PyTensor>,
    name: &str,
    function: Py<PyAny>,
) -> PyResult<Bound<'py, PyTensor>> {
    let py = x.py();
    let called = move |py: Python<'_>, original: Tensor| {
        let original = Bound::new(py, PyTensor::from(original))?;
        let value = function.bind(py).call1((original,))?;
        match value.cast::<PyTensor>() {
            Ok(value) => Ok(value.get().handle()),
            Err(_) => Err(type_error("in_place: the function returned no tensor")),
        }
    };
    x.get().write_by(py, lasting(name), called)?;
    Ok(x)
}
