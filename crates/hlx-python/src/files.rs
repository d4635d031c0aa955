//! Tensors from and to the bytes of safetensors files.

use std::collections::BTreeMap;

use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict};

use crate::device::PyDevice;
use crate::error::{of_io, type_error};
use crate::tensor::PyTensor;

/// The bytes of a safetensors file of named tensors.
#[pyfunction]
pub fn to_safetensors<'py>(
    py: Python<'py>,
    tensors: &Bound<'py, PyDict>,
) -> PyResult<Bound<'py, PyBytes>> {
    let mut named = BTreeMap::new();
    for (name, tensor) in tensors.iter() {
        let Ok(tensor) = tensor.cast::<PyTensor>() else {
            return Err(type_error(format!("save_file: {name} is no tensor")));
        };
        named.insert(name.extract::<String>()?, tensor.get().handle().detach());
    }
    let bytes = py
        .detach(|| hlx_io::to_safetensors(&named))
        .map_err(of_io)?;
    Ok(PyBytes::new(py, &bytes))
}

/// The named tensors in the bytes of a safetensors file.
#[pyfunction]
pub fn from_safetensors<'py>(
    py: Python<'py>,
    bytes: &Bound<'py, PyBytes>,
    device: Option<&Bound<'py, PyAny>>,
) -> PyResult<Bound<'py, PyDict>> {
    let device = PyDevice::from_argument(device)?.open(py)?;
    let bytes = bytes.as_bytes();
    let named = py
        .detach(|| hlx_io::from_safetensors(&device, bytes))
        .map_err(of_io)?;
    let tensors = PyDict::new(py);
    for (name, tensor) in named {
        tensors.set_item(name, Bound::new(py, PyTensor::from(tensor))?)?;
    }
    Ok(tensors)
}
