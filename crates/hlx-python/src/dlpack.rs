//! DLPack, version 1: arrays between libraries (<https://dmlc.github.io/dlpack/latest/c_api.html>).

mod abi;
mod array;
mod given;
mod taken;

use hlx_autograd::Tensor;
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::copies::cloned;
use crate::device::PyDevice;
use crate::error::{Kind, raised};
use crate::host::Host;
use crate::tensor::PyTensor;
use crate::wait::run;
use abi::{CPU, IS_COPIED, VULKAN};
use array::Array;
use given::capsule;
use taken::shared;

fn refused(text: impl Into<String>) -> PyErr {
    raised(Kind::Buffer, text.into())
}

fn device_of(x: &Tensor) -> (i32, i32) {
    let selector = &x.device().info().selector;
    let index = selector
        .split(':')
        .nth(1)
        .and_then(|index| index.parse().ok());
    match x.device().is_cpu() {
        true => (CPU, 0),
        false => (VULKAN, index.unwrap_or(0)),
    }
}

#[pymethods]
impl PyTensor {
    /// DLPack's number of the device's kind, and its index.
    fn __dlpack_device__(&self) -> (i32, i32) {
        device_of(&self.handle())
    }

    /// The tensor as a DLPack capsule. On the CPU it shares the memory unless `copy=True`; a tensor of a GPU comes as a
    /// copy on the CPU where `dl_device=(1, 0)` asks for it.
    #[pyo3(signature = (*, stream = None, max_version = None, dl_device = None, copy = None))]
    fn __dlpack__<'py>(
        &self,
        py: Python<'py>,
        stream: Option<&Bound<'py, PyAny>>,
        max_version: Option<(u32, u32)>,
        dl_device: Option<(i32, i32)>,
        copy: Option<bool>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let x = self.handle();
        if stream.is_some_and(|stream| !stream.is_none()) && x.device().is_cpu() {
            return Err(refused(
                "__dlpack__: a stream is given, expected None for the CPU",
            ));
        }
        if x.requires_grad() {
            return Err(refused(
                "__dlpack__: the tensor requires a gradient; use x.detach()",
            ));
        }
        if dl_device.is_some_and(|(kind, _)| kind != CPU) && dl_device != Some(device_of(&x)) {
            let found = dl_device.unwrap_or_default();
            return Err(refused(format!(
                "__dlpack__: dl_device is {found:?}, expected (1, 0)"
            )));
        }
        if !x.device().is_cpu() && dl_device != Some((CPU, 0)) {
            let text = "__dlpack__: no library shares memory with Vulkan; ask for dl_device=(1, 0), a copy on the CPU";
            return Err(refused(text));
        }
        if !x.device().is_cpu() && copy == Some(false) {
            return Err(refused(
                "__dlpack__: a tensor of a GPU comes as a copy, and copy=False is given",
            ));
        }
        let copies = copy == Some(true) || !x.device().is_cpu();
        let given = match copies {
            true => {
                let cpu = PyDevice::cpu().open(py)?;
                run(py, move || cloned(&x.to(&cpu)?))?
            }
            false => x,
        };
        let versioned = max_version.is_some_and(|(major, _)| major >= 1);
        capsule(py, given, versioned, if copies { IS_COPIED } else { 0 })
    }
}

/// The capsule of an object that has `__dlpack__`, of an array on the CPU.
fn capsule_of<'py>(value: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
    let py = value.py();
    let on_cpu = match value.call_method0("__dlpack_device__") {
        Ok(device) => device.extract::<(i32, i32)>()?.0 == CPU,
        Err(_) => true,
    };
    let keywords = PyDict::new(py);
    keywords.set_item("max_version", (1, 0))?;
    if !on_cpu {
        keywords.set_item("dl_device", (CPU, 0))?;
    }
    match value.call_method("__dlpack__", (), Some(&keywords)) {
        // Libraries from before version 1 know no keywords.
        Err(error) if error.is_instance_of::<PyTypeError>(py) && on_cpu => {
            value.call_method0("__dlpack__")
        }
        other => other,
    }
}

/// Copies an object that has `__dlpack__`, through the CPU.
///
/// # Errors
/// For arrays that HLX cannot read.
pub fn read(value: &Bound<'_, PyAny>, operation: &str) -> PyResult<Host> {
    let capsule = capsule_of(value)?;
    let array = Array::of(&capsule, operation)?;
    array.copied(operation)
}

const OPERATION: &str = "from_dlpack";

/// A tensor of another library's array, by DLPack.
///
/// It shares the array's memory on the CPU where HLX can read it as it is: elements of a type of HLX's in row-major
/// order, no subnormal floats, a whole number of 4-byte words. Otherwise it is copied, which `copy=False` refuses.
#[pyfunction]
#[pyo3(signature = (x, /, *, device = None, copy = None))]
pub fn from_dlpack(
    py: Python<'_>,
    x: &Bound<'_, PyAny>,
    device: Option<&Bound<'_, PyAny>>,
    copy: Option<bool>,
) -> PyResult<PyTensor> {
    let named = device.filter(|device| !device.is_none());
    if let Ok(own) = x.cast::<PyTensor>() {
        let tensor = own.get().handle().detach();
        let target = match named {
            Some(_) => PyDevice::from_argument(named)?.open(py)?,
            None => tensor.device().clone(),
        };
        let stays = target.is_same(tensor.device());
        return match (stays, copy) {
            (true, None | Some(false)) => Ok(tensor.into()),
            (false, Some(false)) => Err(refused(
                "from_dlpack: another device needs a copy, and copy=False is given",
            )),
            _ => run(py, move || cloned(&tensor.to(&target)?)).map(PyTensor::from),
        };
    }
    let device = match named {
        Some(_) => PyDevice::from_argument(named)?,
        None => PyDevice::cpu(),
    };
    let device = device.open(py)?;
    let capsule = match x.hasattr("__dlpack__")? {
        true => capsule_of(x)?,
        false => x.clone(),
    };
    if copy != Some(true)
        && let Some(tensor) = shared(&capsule, &device)?
    {
        return Ok(tensor);
    }
    if copy == Some(false) {
        return Err(refused(
            "from_dlpack: the array needs a copy, and copy=False is given",
        ));
    }
    let host = Array::of(&capsule, OPERATION)?.copied(OPERATION)?;
    host.into_tensor(&device, OPERATION)
}
