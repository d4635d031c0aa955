//! Python's operators on tensors.

#![expect(
    unsafe_op_in_unsafe_fn,
    reason = "in the code that PyO3 makes within a macro"
)]

use hlx_autograd::{Binary, Result, Rounding, Tensor};
use hlx_core::DType;
use pyo3::basic::CompareOp;
use pyo3::prelude::*;

use crate::error::{foreign, type_error, value_error};
use crate::number::Number;
use crate::operand::{Other, near};
use crate::read::{number, truth};
use crate::tensor::PyTensor;
use crate::wait::run;

/// An operation of two operands by its name.
pub fn named_binary(name: &str) -> PyResult<Binary> {
    macro_rules! names {
        ($($(#[$documentation:meta])* $name:ident $variant:ident $is_bool:literal
           [$($f32:ident)?] [$($i32:ident)?] [$($u32:ident)?];)+) => {
            match name {
                $(stringify!($name) => Ok(Binary::$variant),)+
                _ => Err(value_error(format!("binary: there is no operation {name:?}"))),
            }
        };
    }
    hlx_kernels::for_each_binary!(names)
}

/// Both operands as tensors; one of them is one.
pub fn pair(a: Other, b: Other) -> PyResult<(Tensor, Tensor)> {
    match (a, b) {
        (Other::Tensor(a), Other::Tensor(b)) => {
            let b = near(b, &a)?;
            Ok((near(a, &b)?, b))
        }
        (Other::Tensor(a), b) => {
            let b = b.beside(&a)?;
            Ok((a, b))
        }
        (a, Other::Tensor(b)) => Ok((a.beside(&b)?, b)),
        _ => Err(type_error("hlx: an operand has to be a tensor")),
    }
}

/// Computes `f(a, b)`; one of both is a tensor.
pub fn binary(py: Python<'_>, operation: Binary, a: Other, b: Other) -> PyResult<PyTensor> {
    if let Other::Tensor(x) = &a {
        let x = match &b {
            Other::Tensor(b) => near(x.clone(), b)?,
            Other::Number(_) => x.clone(),
        };
        let y = b.prepared(&x)?;
        return run(py, move || x.binary(operation, y)).map(PyTensor::from);
    }
    let (x, y) = pair(a, b)?;
    run(py, move || x.binary(operation, &y)).map(PyTensor::from)
}

/// a^b; a square is an operation of its own, as in PyTorch.
pub fn power(py: Python<'_>, a: Other, b: Other) -> PyResult<PyTensor> {
    if let (Other::Tensor(x), Other::Number(exponent)) = (&a, &b) {
        let is_float = x.dtype().is_float();
        if is_float && exponent.as_f64() == 2.0 {
            let x = x.clone();
            return run(py, move || x.square()).map(PyTensor::from);
        }
        if matches!(exponent, Number::Int(..0)) && !is_float {
            return Err(value_error(
                "pow: a negative power of integers is no integer",
            ));
        }
    }
    binary(py, Binary::Pow, a, b)
}

macro_rules! of_binary {
    ($($name:ident $operation:ident;)+) => {
        $(
            fn $name(py: Python<'_>, a: Other, b: Other) -> PyResult<PyTensor> {
                binary(py, Binary::$operation, a, b)
            }
        )+
    };
}
of_binary! {
    added Add;
    subtracted Sub;
    multiplied Mul;
    divided Div;
    remainder Remainder;
    and BitwiseAnd;
    or BitwiseOr;
    exclusive_or BitwiseXor;
    shifted_left LeftShift;
    shifted_right RightShift;
}

/// Writes `f(x, other)` into x's memory.
pub fn binary_in_place(
    x: &Bound<'_, PyTensor>,
    operation: Binary,
    name: &'static str,
    other: &Bound<'_, PyAny>,
) -> PyResult<()> {
    let (py, handle) = (x.py(), x.get().handle());
    let Some(other) = Other::beside_tensor(other, &handle)? else {
        let found = other.get_type().name()?;
        let text = format!("{name}: an operand is a {found}, expected a tensor or a number");
        return Err(type_error(text));
    };
    let other = other.prepared(&handle)?;
    x.get().write(py, name, move |x| x.binary(operation, other))
}

fn floor_divided(py: Python<'_>, a: Other, b: Other) -> PyResult<PyTensor> {
    let (a, b) = pair(a, b)?;
    run(py, move || a.div_rounded(&b, Rounding::Floor)).map(PyTensor::from)
}

fn matmul(py: Python<'_>, a: Other, b: Other) -> PyResult<PyTensor> {
    let (Other::Tensor(a), Other::Tensor(b)) = (a, b) else {
        return Err(type_error(
            "matmul: an operand is a number, expected a tensor",
        ));
    };
    run(py, move || a.matmul(&b)).map(PyTensor::from)
}

/// Other bits, or of truth values the other ones.
fn inverted(x: &Tensor) -> Result<Tensor> {
    match x.dtype() {
        DType::Bool => x.logical_not(),
        _ => x.bitwise_not(),
    }
}

/// A result, or `NotImplemented` beside what is no operand, so that Python tries the other one's method.
fn with_other<'py>(
    slf: &Bound<'py, PyTensor>,
    other: &Bound<'py, PyAny>,
    operation: impl FnOnce(Other, Other) -> PyResult<PyTensor>,
) -> PyResult<Bound<'py, PyAny>> {
    let (py, x) = (slf.py(), slf.get().handle());
    let Some(other) = Other::beside_tensor(other, &x)? else {
        return Ok(py.NotImplemented().into_bound(py));
    };
    let result = operation(Other::Tensor(x), other)?;
    Ok(Bound::new(py, result)?.into_any())
}

impl PyTensor {
    /// As [`PyTensor::write`], with an operation that needs the interpreter.
    pub fn write_by(
        &self,
        py: Python<'_>,
        name: &'static str,
        operation: impl FnOnce(Python<'_>, Tensor) -> PyResult<Tensor> + Send,
    ) -> PyResult<()> {
        self.write(py, name, move |x| {
            Python::attach(|py| operation(py, x.clone())).map_err(foreign)
        })
    }
}

macro_rules! operators {
    ($($forward:ident $reflected:ident $function:ident;)+) => {
        #[pymethods]
        impl PyTensor {
            $(
                fn $forward<'py>(slf: Bound<'py, Self>, other: Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
                    let py = slf.py();
                    with_other(&slf, &other, |x, y| $function(py, x, y))
                }

                fn $reflected<'py>(slf: Bound<'py, Self>, other: Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
                    let py = slf.py();
                    with_other(&slf, &other, |x, y| $function(py, y, x))
                }
            )+
        }
    };
}

operators! {
    __add__ __radd__ added;
    __sub__ __rsub__ subtracted;
    __mul__ __rmul__ multiplied;
    __truediv__ __rtruediv__ divided;
    __floordiv__ __rfloordiv__ floor_divided;
    __mod__ __rmod__ remainder;
    __and__ __rand__ and;
    __or__ __ror__ or;
    __xor__ __rxor__ exclusive_or;
    __lshift__ __rlshift__ shifted_left;
    __rshift__ __rrshift__ shifted_right;
    __matmul__ __rmatmul__ matmul;
}

/// Operators in place of operations of two operands.
macro_rules! in_place {
    ($($in_place:ident $name:literal $operation:ident;)+) => {
        #[pymethods]
        impl PyTensor {
            $(
                fn $in_place(slf: Bound<'_, Self>, other: Bound<'_, PyAny>) -> PyResult<()> {
                    binary_in_place(&slf, Binary::$operation, $name, &other)
                }
            )+
        }
    };
}

in_place! {
    __iadd__ "add_" Add;
    __isub__ "sub_" Sub;
    __imul__ "mul_" Mul;
    __itruediv__ "div_" Div;
    __imod__ "remainder_" Remainder;
    __iand__ "bitwise_and_" BitwiseAnd;
    __ior__ "bitwise_or_" BitwiseOr;
    __ixor__ "bitwise_xor_" BitwiseXor;
    __ilshift__ "bitwise_left_shift_" LeftShift;
    __irshift__ "bitwise_right_shift_" RightShift;
}

#[pymethods]
impl PyTensor {
    fn __pow__<'py>(
        slf: Bound<'py, Self>,
        other: Bound<'py, PyAny>,
        modulus: Option<Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        if modulus.is_some_and(|modulus| !modulus.is_none()) {
            return Err(type_error("pow: a modulus is given, expected none"));
        }
        let py = slf.py();
        with_other(&slf, &other, |x, y| power(py, x, y))
    }

    fn __rpow__<'py>(
        slf: Bound<'py, Self>,
        other: Bound<'py, PyAny>,
        _modulus: Option<Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let py = slf.py();
        with_other(&slf, &other, |x, y| power(py, y, x))
    }

    fn __ipow__(
        slf: Bound<'_, Self>,
        other: Bound<'_, PyAny>,
        _modulus: Option<Bound<'_, PyAny>>,
    ) -> PyResult<()> {
        let other = Other::expected("pow_", &other)?;
        slf.get().write_by(slf.py(), "pow_", move |py, x| {
            Ok(power(py, Other::Tensor(x), other)?.handle())
        })
    }

    fn __ifloordiv__(slf: Bound<'_, Self>, other: Bound<'_, PyAny>) -> PyResult<()> {
        let other = Other::expected("floor_divide_", &other)?;
        slf.get().write_by(slf.py(), "floor_divide_", move |py, x| {
            Ok(floor_divided(py, Other::Tensor(x), other)?.handle())
        })
    }

    fn __imatmul__(slf: Bound<'_, Self>, other: Bound<'_, PyAny>) -> PyResult<()> {
        let other = Other::expected("matmul_", &other)?;
        slf.get().write_by(slf.py(), "matmul_", move |py, x| {
            Ok(matmul(py, Other::Tensor(x), other)?.handle())
        })
    }

    fn __neg__(&self, py: Python<'_>) -> PyResult<Self> {
        self.apply(py, Tensor::neg)
    }

    fn __pos__(slf: Bound<'_, Self>) -> Bound<'_, Self> {
        slf
    }

    fn __abs__(&self, py: Python<'_>) -> PyResult<Self> {
        self.apply(py, Tensor::abs)
    }

    fn __invert__(&self, py: Python<'_>) -> PyResult<Self> {
        self.apply(py, inverted)
    }

    fn __richcmp__<'py>(
        slf: Bound<'py, Self>,
        other: Bound<'py, PyAny>,
        comparison: CompareOp,
    ) -> PyResult<Bound<'py, PyAny>> {
        let operation = match comparison {
            CompareOp::Lt => Binary::Lt,
            CompareOp::Le => Binary::Le,
            CompareOp::Eq => Binary::Eq,
            CompareOp::Ne => Binary::Ne,
            CompareOp::Gt => Binary::Gt,
            CompareOp::Ge => Binary::Ge,
        };
        let py = slf.py();
        with_other(&slf, &other, |x, y| binary(py, operation, x, y))
    }

    fn __contains__(&self, py: Python<'_>, element: &Bound<'_, PyAny>) -> PyResult<bool> {
        let x = self.handle();
        let y = Other::expected("in", element)?.beside(&x)?;
        let found = run(py, move || x.eq(&y)?.any(&[], false))?;
        truth(py, &found)
    }

    fn __bool__(&self, py: Python<'_>) -> PyResult<bool> {
        truth(py, &self.handle())
    }

    fn __float__(&self, py: Python<'_>) -> PyResult<f64> {
        Ok(number(py, &self.handle(), "float")?.as_f64())
    }

    fn __int__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let value = number(py, &self.handle(), "int")?.as_f64();
        // Python's int refuses NaN and infinity.
        py.get_type::<pyo3::types::PyInt>().call1((value,))
    }

    fn __index__(&self, py: Python<'_>) -> PyResult<i64> {
        let x = self.handle();
        if x.n_elements() != 1 || x.dtype().is_float() {
            return Err(type_error("index: the tensor is no integer of one element"));
        }
        Ok(number(py, &x, "index")?.as_f64() as i64)
    }
}
