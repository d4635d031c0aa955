//! Reading a tensor's values: numbers, lists, text and digests.

use std::collections::BTreeMap;

use half::{bf16, f16};
use hlx_autograd::Tensor;
use hlx_core::DType;
use hlx_core::digest::TensorHasher;
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyDict, PyList};

use crate::dtype::PyDType;
use crate::error::{Kind, raised, value_error};
use crate::number::Number;
use crate::tensor::PyTensor;
use crate::wait::wait;

/// A tensor's elements in row-major order, in memory of the host: little-endian words.
pub fn words(py: Python<'_>, x: &Tensor) -> PyResult<Vec<u32>> {
    if x.n_elements() == 0 {
        return Ok(Vec::new());
    }
    let (device, x) = (x.device().clone(), x.detach());
    wait(py, &device.clone(), move || {
        Ok(device.download_words(&x.buffer()?)?)
    })
}

/// The elements of a tensor of float32.
pub fn floats(py: Python<'_>, x: &Tensor) -> PyResult<Vec<f32>> {
    if x.dtype() != DType::F32 {
        let found = PyDType::from(x.dtype()).name();
        return Err(raised(
            Kind::Type,
            format!("hlx: a tensor is of {found}, expected float32"),
        ));
    }
    Ok(words(py, x)?.into_iter().map(f32::from_bits).collect())
}

/// An element of words as a number.
fn element(words: &[u32], dtype: DType, place: usize) -> Number {
    let per_word = dtype.per_word();
    let bits = words[place / per_word] >> (32 / per_word * (place % per_word));
    match dtype {
        DType::F32 => Number::Float(f64::from(f32::from_bits(bits))),
        DType::F16 => Number::Float(f16::from_bits(bits as u16).to_f64()),
        DType::BF16 => Number::Float(bf16::from_bits(bits as u16).to_f64()),
        DType::I32 => Number::Int(i64::from(bits as i32)),
        DType::U32 => Number::Int(i64::from(bits)),
        DType::I8 => Number::Int(i64::from(bits as i8)),
        DType::U8 => Number::Int(i64::from(bits as u8)),
        DType::Bool => Number::Bool(bits & 0xff != 0),
    }
}

fn to_python<'py>(py: Python<'py>, number: Number) -> PyResult<Bound<'py, PyAny>> {
    Ok(match number {
        Number::Bool(truth) => PyBool::new(py, truth).to_owned().into_any(),
        Number::Int(whole) => whole.into_pyobject(py)?.into_any(),
        Number::Float(float) => float.into_pyobject(py)?.into_any(),
    })
}

/// The one element of a tensor.
pub fn number(py: Python<'_>, x: &Tensor, operation: &str) -> PyResult<Number> {
    if x.n_elements() != 1 {
        let text = format!(
            "{operation}: the tensor has shape {:?}, expected one element",
            x.shape()
        );
        return Err(value_error(text));
    }
    Ok(element(&words(py, x)?, x.dtype(), 0))
}

/// Whether the one element of a tensor is not 0.
pub fn truth(py: Python<'_>, x: &Tensor) -> PyResult<bool> {
    Ok(number(py, x, "bool")?.as_f64() != 0.0)
}

/// PyTorch's name of the node of an operation: `MulBackward0`.
pub fn grad_fn_name(operation: &str) -> String {
    let words = operation
        .trim_end_matches('_')
        .split('_')
        .filter(|word| !word.is_empty());
    let capital = |word: &str| {
        let (first, rest) = word.split_at(1);
        first.to_uppercase() + rest
    };
    words.map(capital).collect::<String>() + "Backward0"
}

fn nested<'py>(
    py: Python<'py>,
    shape: &[usize],
    next: &mut impl FnMut() -> Number,
) -> PyResult<Bound<'py, PyAny>> {
    let Some((&extent, inner)) = shape.split_first() else {
        return to_python(py, next());
    };
    let list = PyList::empty(py);
    for _ in 0..extent {
        list.append(nested(py, inner, next)?)?;
    }
    Ok(list.into_any())
}

/// The SHA-256 of named tensors, in hexadecimal: of each its name, shape and elements, in the order of the mapping.
#[pyfunction]
pub fn digest(py: Python<'_>, tensors: &Bound<'_, PyDict>) -> PyResult<String> {
    let mut hasher = TensorHasher::new();
    for (name, tensor) in tensors.iter() {
        let tensor = tensor.cast::<PyTensor>()?.get().handle();
        hash(py, &mut hasher, name.extract()?, &tensor)?;
    }
    Ok(hasher.finish())
}

/// The SHA-256 of a model's state as hlx-nn has it: parameters and buffers in the order of their names, counts by
/// their words.
#[pyfunction]
pub fn state_digest(py: Python<'_>, tensors: &Bound<'_, PyDict>) -> PyResult<String> {
    let mut named = BTreeMap::new();
    for (name, tensor) in tensors.iter() {
        let tensor = tensor.cast::<PyTensor>()?.get().handle();
        named.insert(name.extract::<String>()?, tensor);
    }
    let mut hasher = TensorHasher::new();
    for (name, x) in &named {
        match x.dtype().size() {
            4 => {
                let values = words(py, x)?.into_iter().map(f32::from_bits);
                hasher.add(name, x.shape(), &values.collect::<Vec<f32>>());
            }
            _ => hash(py, &mut hasher, name, x)?,
        }
    }
    Ok(hasher.finish())
}

fn hash(py: Python<'_>, hasher: &mut TensorHasher, name: &str, x: &Tensor) -> PyResult<()> {
    let words = words(py, x)?;
    match x.dtype() {
        DType::F32 => {
            let values: Vec<f32> = words.into_iter().map(f32::from_bits).collect();
            hasher.add(name, x.shape(), &values);
        }
        dtype => {
            hasher.begin(&format!("{name}:{}", dtype.name()), x.shape());
            let bytes = hlx_core::bytes::little_endian(&words);
            hasher.elements(&bytes[..x.n_elements() * dtype.size()]);
        }
    }
    Ok(())
}

#[pymethods]
impl PyTensor {
    /// The one element as a number of Python; waits for the device.
    fn item<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        to_python(py, number(py, &self.handle(), "item")?)
    }

    /// The elements as nested lists of numbers; waits for the device.
    fn tolist<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let x = self.handle();
        let (words, dtype) = (words(py, &x)?, x.dtype());
        let mut places = 0..;
        let mut next = || element(&words, dtype, places.next().unwrap_or_default());
        nested(py, x.shape(), &mut next)
    }

    /// The SHA-256 of shape and elements, in hexadecimal, by which HLX states that bits are equal.
    fn digest(&self, py: Python<'_>) -> PyResult<String> {
        let mut hasher = TensorHasher::new();
        hash(py, &mut hasher, "", &self.handle())?;
        Ok(hasher.finish())
    }

    fn __repr__(&self, py: Python<'_>) -> PyResult<String> {
        let x = self.handle();
        let mut notes = Vec::new();
        if !x.device().is_cpu() {
            notes.push(format!("device='{}'", x.device().info().selector));
        }
        // As PyTorch: none for the types that values of Python get; of nothing it cannot be told.
        let implied = match x.n_elements() {
            0 => x.dtype() == DType::F32,
            _ => matches!(x.dtype(), DType::F32 | DType::I32 | DType::Bool),
        };
        if !implied {
            notes.push(format!("dtype=hlx.{}", PyDType::from(x.dtype()).name()));
        }
        match x.grad_fn() {
            Some(operation) => notes.push(format!("grad_fn=<{}>", grad_fn_name(operation))),
            None if x.requires_grad() => notes.push("requires_grad=True".to_owned()),
            None => {}
        }
        let device = x.device().clone();
        wait(py, &device, move || x.printed("tensor(", &notes))
    }

    fn __str__(&self, py: Python<'_>) -> PyResult<String> {
        self.__repr__(py)
    }

    fn __format__<'py>(&self, py: Python<'py>, specification: &str) -> PyResult<Bound<'py, PyAny>> {
        let x = self.handle();
        if specification.is_empty() && x.rank() > 0 {
            return Ok(self.__repr__(py)?.into_pyobject(py)?.into_any());
        }
        if x.rank() > 0 {
            let text = format!(
                "format: {specification:?} is for one number, the tensor has shape {:?}",
                x.shape()
            );
            return Err(raised(Kind::Type, text));
        }
        let value = to_python(py, number(py, &x, "format")?)?;
        value.call_method1("__format__", (specification,))
    }
}
