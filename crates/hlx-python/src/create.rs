//! Making tensors: of Python's numbers, lists and arrays, of one value, and of random numbers.

use hlx_autograd::Tensor;
use hlx_core::{DType, Device};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyString};

use crate::arguments::{Argument, Whole};
use crate::buffers::from_buffer;
use crate::copies::copied;
use crate::device::PyDevice;
use crate::dtype::PyDType;
use crate::error::{type_error, value_error};
use crate::gate;
use crate::host::{Elements, Host};
use crate::number::Number;
use crate::random::check_unrecorded;
use crate::tensor::PyTensor;
use crate::wait::run;

/// The numbers of nested sequences, and what kind the widest is.
#[derive(Default)]
struct Nested {
    shape: Vec<usize>,
    numbers: Vec<Number>,
}

impl Nested {
    fn collect(value: &Bound<'_, PyAny>, operation: &str) -> PyResult<Self> {
        let mut nested = Self::default();
        nested.add(value, 0, operation)?;
        Ok(nested)
    }

    fn add(&mut self, value: &Bound<'_, PyAny>, depth: usize, operation: &str) -> PyResult<()> {
        if let Some(number) = Number::of(value) {
            if depth != self.shape.len() && !self.numbers.is_empty() {
                return Err(ragged(operation));
            }
            self.numbers.push(number);
            return Ok(());
        }
        if let Ok(tensor) = value.cast::<PyTensor>()
            && tensor.get().handle().rank() == 0
        {
            let number = crate::read::number(value.py(), &tensor.get().handle(), operation)?;
            self.numbers.push(number);
            return Ok(());
        }
        let is_text = value.is_instance_of::<PyString>() || value.is_instance_of::<PyBytes>();
        let extent = match value.len() {
            Ok(extent) if !is_text => extent,
            _ => {
                let found = value.get_type().name()?;
                let text = format!(
                    "{operation}: the data has a {found}, expected numbers in nested sequences"
                );
                return Err(type_error(text));
            }
        };
        match self.shape.get(depth) {
            None if self.numbers.is_empty() => self.shape.push(extent),
            Some(&other) if other == extent => {}
            _ => return Err(ragged(operation)),
        }
        for part in value.try_iter()? {
            self.add(&part?, depth + 1, operation)?;
        }
        Ok(())
    }

    fn into_host(self) -> Host {
        let floats = || self.numbers.iter().map(|number| number.as_f64()).collect();
        let whole = |number: &Number| match *number {
            Number::Int(whole) => whole,
            other => other.as_f64() as i64,
        };
        let is_float = |number: &Number| matches!(number, Number::Float(_));
        let is_bool = |number: &Number| matches!(number, Number::Bool(_));
        let elements = match () {
            _ if self.numbers.is_empty() => Elements::Floats(Vec::new()),
            _ if self.numbers.iter().any(is_float) => Elements::Floats(floats()),
            _ if self.numbers.iter().all(is_bool) => Elements::Bool(
                self.numbers
                    .iter()
                    .map(|number| number.as_f64() != 0.0)
                    .collect(),
            ),
            _ => Elements::Whole(self.numbers.iter().map(whole).collect()),
        };
        Host {
            shape: self.shape,
            elements,
        }
    }
}

fn ragged(operation: &str) -> PyErr {
    value_error(format!(
        "{operation}: the nested sequences do not have equal lengths"
    ))
}

/// A tensor of data: a tensor is copied, an array is read, nested sequences are collected.
///
/// # Errors
/// For what is no data, float64 without a type, integers that do not fit; the device's.
pub fn from_data(
    value: &Bound<'_, PyAny>,
    dtype: Option<DType>,
    device: &Device,
    operation: &str,
) -> PyResult<Tensor> {
    if let Ok(tensor) = value.cast::<PyTensor>() {
        let x = tensor.get().handle().detach();
        return run(value.py(), move || {
            let x = x.to(device)?.to_dtype(dtype.unwrap_or(x.dtype()))?;
            copied(&x)
        });
    }
    let _pass = gate::pass(value.py())?;
    let is_text = value.is_instance_of::<PyBytes>();
    let read = match (is_text, from_buffer(value)?) {
        (false, Some(host)) => host,
        _ if !is_text && value.hasattr("__dlpack__")? => crate::dlpack::read(value, operation)?,
        _ if !is_text && value.hasattr("__array__")? => {
            return from_data(&value.call_method0("__array__")?, dtype, device, operation);
        }
        _ => Nested::collect(value, operation)?.into_host(),
    };
    read.elements.upload(device, &read.shape, dtype, operation)
}

/// A tensor of numbers, nested sequences, arrays or another tensor, which are copied.
#[pyfunction]
#[pyo3(signature = (data, dtype = None, device = None))]
pub fn tensor(
    py: Python<'_>,
    data: &Bound<'_, PyAny>,
    dtype: Option<&PyDType>,
    device: Option<&Bound<'_, PyAny>>,
) -> PyResult<PyTensor> {
    let dtype = dtype.map(|dtype| dtype.stored("tensor")).transpose()?;
    let named = device.filter(|device| !device.is_none());
    let device = match (named, data.cast::<PyTensor>()) {
        (None, Ok(data)) => data.get().handle().device().clone(),
        _ => PyDevice::from_argument(named)?.open(py)?,
    };
    from_data(data, dtype, &device, "tensor").map(PyTensor::from)
}

/// Makes a tensor on a device without the interpreter's lock.
fn made(
    py: Python<'_>,
    device: &PyDevice,
    make: impl FnOnce(&Device) -> hlx_autograd::Result<Tensor> + Send,
) -> PyResult<PyTensor> {
    let device = device.open(py)?;
    run(py, move || make(&device)).map(PyTensor::from)
}

/// Zeros.
#[pyfunction]
pub fn zeros(
    py: Python<'_>,
    device: &PyDevice,
    shape: Vec<Whole>,
    dtype: &PyDType,
) -> PyResult<PyTensor> {
    let shape = Vec::<usize>::of(shape, "zeros", "an extent")?;
    let dtype = dtype.stored("zeros")?;
    made(py, device, move |device| {
        Tensor::zeros(device, &shape, dtype)
    })
}

/// Ones.
#[pyfunction]
pub fn ones(
    py: Python<'_>,
    device: &PyDevice,
    shape: Vec<Whole>,
    dtype: &PyDType,
) -> PyResult<PyTensor> {
    let shape = Vec::<usize>::of(shape, "ones", "an extent")?;
    let dtype = dtype.stored("ones")?;
    made(py, device, move |device| {
        Tensor::ones(device, &shape, dtype)
    })
}

/// One value everywhere.
#[pyfunction]
pub fn full(
    py: Python<'_>,
    device: &PyDevice,
    shape: Vec<Whole>,
    value: &Bound<'_, PyAny>,
    dtype: &PyDType,
) -> PyResult<PyTensor> {
    let shape = Vec::<usize>::of(shape, "full", "an extent")?;
    let dtype = dtype.stored("full")?;
    let Some(number) = Number::of(value) else {
        return Err(type_error("full: the value is no number"));
    };
    let opened = device.open(py)?;
    let whole = matches!(number, Number::Int(_)) && dtype.is_integer();
    let value = match whole {
        true => Some(number.on(&opened, dtype)?),
        false => None,
    };
    run(py, move || match value {
        // Integers past 24 bits are no f32.
        Some(value) => copied(&value.to_dtype(dtype)?.expand(&shape)?),
        None => Tensor::full(&opened, &shape, number.as_f64() as f32, dtype),
    })
    .map(PyTensor::from)
}

/// Numbers from `start` to before `end`, as f32.
#[pyfunction]
pub fn arange(
    py: Python<'_>,
    device: &PyDevice,
    start: f64,
    end: f64,
    step: f64,
) -> PyResult<PyTensor> {
    made(py, device, move |device| {
        Tensor::arange(device, start, end, step)
    })
}

/// Numbers at equal distances, as f32.
#[pyfunction]
pub fn linspace(
    py: Python<'_>,
    device: &PyDevice,
    start: f32,
    end: f32,
    count: Whole,
) -> PyResult<PyTensor> {
    let count = usize::of(count, "linspace", "count")?;
    made(py, device, move |device| {
        Tensor::linspace(device, start, end, count)
    })
}

/// Ones on the diagonal.
#[pyfunction]
pub fn eye_of(
    py: Python<'_>,
    device: &PyDevice,
    rows: Whole,
    columns: Whole,
) -> PyResult<PyTensor> {
    let rows = usize::of(rows, "eye_of", "rows")?;
    let columns = usize::of(columns, "eye_of", "columns")?;
    made(py, device, move |device| {
        Tensor::eye_of(device, rows, columns)
    })
}

/// Uniform numbers from 0 to before 1.
#[pyfunction]
pub fn rand(py: Python<'_>, device: &PyDevice, shape: Vec<Whole>, seed: u64) -> PyResult<PyTensor> {
    let shape = Vec::<usize>::of(shape, "rand", "an extent")?;
    check_unrecorded("rand")?;
    made(py, device, move |device| Tensor::rand(device, &shape, seed))
}

/// Standard normal numbers.
#[pyfunction]
pub fn randn(
    py: Python<'_>,
    device: &PyDevice,
    shape: Vec<Whole>,
    seed: u64,
) -> PyResult<PyTensor> {
    let shape = Vec::<usize>::of(shape, "randn", "an extent")?;
    check_unrecorded("randn")?;
    made(py, device, move |device| {
        Tensor::randn(device, &shape, seed)
    })
}

/// Integers from `low` to before `high`.
#[pyfunction]
pub fn randint(
    py: Python<'_>,
    device: &PyDevice,
    low: i32,
    high: i32,
    shape: Vec<Whole>,
    seed: u64,
) -> PyResult<PyTensor> {
    let shape = Vec::<usize>::of(shape, "randint", "an extent")?;
    check_unrecorded("randint")?;
    made(py, device, move |device| {
        Tensor::randint(device, low, high, &shape, seed)
    })
}

/// Truth values that hold with probability `p`.
#[pyfunction]
pub fn bernoulli(
    py: Python<'_>,
    device: &PyDevice,
    p: f32,
    shape: Vec<Whole>,
    seed: u64,
) -> PyResult<PyTensor> {
    let shape = Vec::<usize>::of(shape, "bernoulli", "an extent")?;
    check_unrecorded("bernoulli")?;
    made(py, device, move |device| {
        Tensor::bernoulli(device, p, &shape, seed)
    })
}
