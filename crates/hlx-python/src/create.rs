//! Making tensors: of Python's numbers, lists and arrays, of one value, and of random numbers.

use half::{bf16, f16};
use hlx_autograd::Tensor;
use hlx_core::{Bool, DType, Device, Element};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyString};

use crate::device::PyDevice;
use crate::dtype::{PyDType, default_float, no_float64};
use crate::error::{of_tensor, type_error, value_error};
use crate::exchange::from_buffer;
use crate::operand::Number;
use crate::tensor::PyTensor;
use crate::wait::run;

/// An array in memory of the host, in row-major order.
pub struct Host {
    pub shape: Vec<usize>,
    pub elements: Elements,
}

/// Elements of any type that data comes in.
pub enum Elements {
    Bool(Vec<bool>),
    I8(Vec<i8>),
    U8(Vec<u8>),
    U32(Vec<u32>),
    F16(Vec<f16>),
    BF16(Vec<bf16>),
    F32(Vec<f32>),
    /// Integers of other widths, which are narrowed with a check.
    Whole(Vec<i64>),
    /// Integers past i64.
    Large(Vec<u64>),
    /// Floats of Python, which are float32 unless something else is named.
    Floats(Vec<f64>),
    /// An array of float64, which is refused unless a type is named.
    Doubles(Vec<f64>),
}

fn read<const N: usize, T>(bytes: &[u8], read: impl Fn([u8; N]) -> T) -> Vec<T> {
    let (whole, _) = bytes.as_chunks::<N>();
    whole.iter().map(|&bytes| read(bytes)).collect()
}

impl Elements {
    /// Elements from bytes, by a code of Python's `struct`.
    ///
    /// # Errors
    /// For codes of other things, such as complex numbers or records.
    pub fn from_format(format: &str, size: usize, bytes: &[u8]) -> PyResult<Self> {
        let native = if cfg!(target_endian = "little") {
            '<'
        } else {
            '>'
        };
        let code = format.trim_start_matches(['@', '=', native]);
        let code = code.strip_prefix('1').unwrap_or(code);
        Ok(match (code, size) {
            ("?", 1) => Self::Bool(bytes.iter().map(|&byte| byte != 0).collect()),
            ("b", 1) => Self::I8(bytes.iter().map(|&byte| byte as i8).collect()),
            ("B" | "c", 1) => Self::U8(bytes.to_vec()),
            ("h", 2) => Self::Whole(read(bytes, |it| i64::from(i16::from_ne_bytes(it)))),
            ("H", 2) => Self::Whole(read(bytes, |it| i64::from(u16::from_ne_bytes(it)))),
            ("i" | "l", 4) => Self::Whole(read(bytes, |it| i64::from(i32::from_ne_bytes(it)))),
            ("I" | "L", 4) => Self::U32(read(bytes, u32::from_ne_bytes)),
            ("l" | "q" | "n", 8) => Self::Whole(read(bytes, i64::from_ne_bytes)),
            ("L" | "Q" | "N", 8) => Self::Large(read(bytes, u64::from_ne_bytes)),
            ("e", 2) => Self::F16(read(bytes, |it| f16::from_bits(u16::from_ne_bytes(it)))),
            ("f", 4) => Self::F32(read(bytes, f32::from_ne_bytes)),
            ("d", 8) => Self::Doubles(read(bytes, f64::from_ne_bytes)),
            _ => {
                let text = format!(
                    "tensor: elements of format {format:?} and {size} bytes have no type in HLX"
                );
                return Err(type_error(text));
            }
        })
    }

    /// The type that the elements have where none is named.
    fn implied(&self, operation: &str) -> PyResult<DType> {
        Ok(match self {
            Self::Bool(_) => DType::Bool,
            Self::I8(_) => DType::I8,
            Self::U8(_) => DType::U8,
            Self::U32(_) => DType::U32,
            Self::F16(_) => DType::F16,
            Self::BF16(_) => DType::BF16,
            Self::F32(_) => DType::F32,
            Self::Floats(_) => default_float(),
            Self::Whole(_) | Self::Large(_) => DType::I32,
            Self::Doubles(_) => return Err(no_float64(operation)),
        })
    }

    /// Uploads the elements, of the type named or that of their own.
    ///
    /// # Errors
    /// For an integer that the type does not hold; the device's.
    fn upload(
        &self,
        device: &Device,
        shape: &[usize],
        dtype: Option<DType>,
        operation: &str,
    ) -> PyResult<Tensor> {
        let dtype = match dtype {
            Some(dtype) => dtype,
            None => self.implied(operation)?,
        };
        let up = Upload {
            device,
            shape,
            operation,
        };
        match self {
            Self::Bool(values) => {
                let values: Vec<Bool> = values.iter().map(|&value| value.into()).collect();
                up.converted(&values, dtype)
            }
            Self::I8(values) => up.converted(values, dtype),
            Self::U8(values) => up.converted(values, dtype),
            Self::U32(values) => up.converted(values, dtype),
            Self::F16(values) => up.converted(values, dtype),
            Self::BF16(values) => up.converted(values, dtype),
            Self::F32(values) => up.converted(values, dtype),
            Self::Whole(values) => up.integers(values, dtype, |value| value as f64),
            Self::Large(values) => up.integers(values, dtype, |value| value as f64),
            Self::Floats(values) | Self::Doubles(values) => up.doubles(values, dtype),
        }
    }
}

/// Where elements go.
struct Upload<'a> {
    device: &'a Device,
    shape: &'a [usize],
    operation: &'a str,
}

impl Upload<'_> {
    fn converted<T: Element>(&self, values: &[T], dtype: DType) -> PyResult<Tensor> {
        let made = Tensor::from_slice(self.device, values, self.shape);
        made.and_then(|made| made.to_dtype(dtype))
            .map_err(of_tensor)
    }

    /// Integers of any width: narrowed with a check, or made floats, or truth values.
    fn integers<T: Copy + std::fmt::Display + TryInto<i32> + TryInto<u32> + TryInto<i64>>(
        &self,
        values: &[T],
        dtype: DType,
        as_f64: impl Fn(T) -> f64,
    ) -> PyResult<Tensor> {
        if dtype.is_float() {
            let floats: Vec<f32> = values.iter().map(|&value| as_f64(value) as f32).collect();
            return self.converted(&floats, dtype);
        }
        match dtype {
            DType::Bool => {
                let truths = values.iter().map(|&value| Bool::from(as_f64(value) != 0.0));
                self.converted(&truths.collect::<Vec<_>>(), dtype)
            }
            DType::U32 => self.narrowed::<T, u32>(values, dtype),
            // As in PyTorch, narrower types wrap.
            _ => self.narrowed::<T, i32>(values, dtype),
        }
    }

    fn narrowed<T: Copy + std::fmt::Display + TryInto<N>, N: Element>(
        &self,
        values: &[T],
        dtype: DType,
    ) -> PyResult<Tensor> {
        let narrow = |&value: &T| {
            value.try_into().map_err(|_| {
                let (operation, name) = (self.operation, PyDType::from(N::DTYPE).name());
                value_error(format!("{operation}: {value} does not fit into {name}"))
            })
        };
        let narrow: PyResult<Vec<N>> = values.iter().map(narrow).collect();
        self.converted(&narrow?, dtype)
    }

    fn doubles(&self, values: &[f64], dtype: DType) -> PyResult<Tensor> {
        if dtype.is_integer() {
            let whole: Vec<i32> = values.iter().map(|&value| value as i32).collect();
            return self.converted(&whole, dtype);
        }
        let narrow: Vec<f32> = values.iter().map(|&value| value as f32).collect();
        self.converted(&narrow, dtype)
    }
}

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

/// A copy of a tensor's values, with nothing of its history.
fn copied(x: &Tensor) -> hlx_autograd::Result<Tensor> {
    let out = x.device().alloc_typed(x.dtype(), x.n_elements())?;
    if x.n_elements() > 0 {
        hlx_kernels::elementwise::copy_strided(x.device(), x.operand(), &out)?;
    }
    Tensor::from_buffer(x.device(), out, x.shape())
}

/// A copy that gradients flow through: PyTorch's `clone`.
pub fn cloned(x: &Tensor) -> hlx_autograd::Result<Tensor> {
    let values = copied(x)?.buffer()?;
    Tensor::from_tensors("clone", &[x], values, x.shape(), |dy| {
        Ok(vec![Some(dy.clone())])
    })
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
    shape: Vec<usize>,
    dtype: &PyDType,
) -> PyResult<PyTensor> {
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
    shape: Vec<usize>,
    dtype: &PyDType,
) -> PyResult<PyTensor> {
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
    shape: Vec<usize>,
    value: &Bound<'_, PyAny>,
    dtype: &PyDType,
) -> PyResult<PyTensor> {
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
    count: usize,
) -> PyResult<PyTensor> {
    made(py, device, move |device| {
        Tensor::linspace(device, start, end, count)
    })
}

/// Ones on the diagonal.
#[pyfunction]
pub fn eye_of(
    py: Python<'_>,
    device: &PyDevice,
    rows: usize,
    columns: usize,
) -> PyResult<PyTensor> {
    made(py, device, move |device| {
        Tensor::eye_of(device, rows, columns)
    })
}

/// Uniform numbers from 0 to before 1.
#[pyfunction]
pub fn rand(py: Python<'_>, device: &PyDevice, shape: Vec<usize>, seed: u64) -> PyResult<PyTensor> {
    made(py, device, move |device| Tensor::rand(device, &shape, seed))
}

/// Standard normal numbers.
#[pyfunction]
pub fn randn(
    py: Python<'_>,
    device: &PyDevice,
    shape: Vec<usize>,
    seed: u64,
) -> PyResult<PyTensor> {
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
    shape: Vec<usize>,
    seed: u64,
) -> PyResult<PyTensor> {
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
    shape: Vec<usize>,
    seed: u64,
) -> PyResult<PyTensor> {
    made(py, device, move |device| {
        Tensor::bernoulli(device, p, &shape, seed)
    })
}

impl Host {
    /// Uploads the array, of the type of its own elements.
    ///
    /// # Errors
    /// As [`from_data`].
    pub fn into_tensor(self, device: &Device, operation: &str) -> PyResult<PyTensor> {
        let made = self.elements.upload(device, &self.shape, None, operation);
        made.map(PyTensor::from)
    }
}
