//! Arrays in memory of the host, on their way to a device.

use half::{bf16, f16};
use hlx_autograd::Tensor;
use hlx_core::{Bool, DType, Device, Element};
use pyo3::prelude::*;

use crate::dtype::{PyDType, default_float, no_float64};
use crate::error::{of_tensor, type_error, value_error};
use crate::tensor::PyTensor;

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
    pub fn upload(
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

impl Host {
    /// Uploads the array, of the type of its own elements.
    ///
    /// # Errors
    /// As [`Elements::upload`].
    pub fn into_tensor(self, device: &Device, operation: &str) -> PyResult<PyTensor> {
        let made = self.elements.upload(device, &self.shape, None, operation);
        made.map(PyTensor::from)
    }
}

/// The strides, in bytes, of elements in row-major order.
pub fn row_major(shape: &[usize], size: usize) -> Vec<isize> {
    let mut strides = vec![size as isize; shape.len()];
    for axis in (1..shape.len()).rev() {
        strides[axis - 1] = strides[axis] * shape[axis] as isize;
    }
    strides
}

/// The elements of a strided array in row-major order.
///
/// # Safety
/// Every element at `first` plus the strides, in bytes, times a place within `shape` can be read.
pub unsafe fn gathered(
    first: *const u8,
    shape: &[usize],
    strides: &[isize],
    size: usize,
) -> Vec<u8> {
    let n: usize = shape.iter().product();
    let mut bytes = Vec::with_capacity(n * size);
    let mut place = vec![0_usize; shape.len()];
    let dense = row_major(shape, size);
    let fits = |axis: usize| shape[axis] == 1 || strides[axis] == dense[axis];
    if (0..shape.len()).all(fits) {
        if n > 0 {
            // SAFETY: the elements lie one after the other.
            bytes.extend_from_slice(unsafe { std::slice::from_raw_parts(first, n * size) });
        }
        return bytes;
    }
    for _ in 0..n {
        let offset: isize = place
            .iter()
            .zip(strides)
            .map(|(&i, &stride)| i as isize * stride)
            .sum();
        // SAFETY: as the caller promises.
        bytes.extend_from_slice(unsafe { std::slice::from_raw_parts(first.offset(offset), size) });
        for axis in (0..shape.len()).rev() {
            place[axis] += 1;
            if place[axis] < shape[axis] {
                break;
            }
            place[axis] = 0;
        }
    }
    bytes
}
