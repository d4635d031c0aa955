//! DLPack, version 1: arrays between libraries (<https://dmlc.github.io/dlpack/latest/c_api.html>).

use std::ffi::{CStr, c_void};
use std::ptr;

use half::bf16;
use hlx_autograd::Tensor;
use hlx_core::DType;
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::create::{Elements, Host, cloned};
use crate::device::PyDevice;
use crate::error::{Kind, raised, type_error};
use crate::exchange::{address, gathered, row_major};
use crate::tensor::PyTensor;
use crate::wait::run;

/// DLPack's number of the CPU.
const CPU: i32 = 1;
/// DLPack's number of Vulkan.
const VULKAN: i32 = 7;
/// The flag of an array that is a copy.
const IS_COPIED: u64 = 2;

const PLAIN: &CStr = c"dltensor";
const VERSIONED: &CStr = c"dltensor_versioned";

#[repr(C)]
struct DlDataType {
    code: u8,
    bits: u8,
    lanes: u16,
}

#[repr(C)]
struct DlTensor {
    data: *mut c_void,
    device_type: i32,
    device_id: i32,
    ndim: i32,
    dtype: DlDataType,
    shape: *mut i64,
    strides: *mut i64,
    byte_offset: u64,
}

#[repr(C)]
struct Managed {
    tensor: DlTensor,
    context: *mut c_void,
    deleter: Option<unsafe extern "C" fn(*mut Managed)>,
}

#[repr(C)]
struct ManagedVersioned {
    version: [u32; 2],
    context: *mut c_void,
    deleter: Option<unsafe extern "C" fn(*mut ManagedVersioned)>,
    flags: u64,
    tensor: DlTensor,
}

/// What an array that was given away holds.
struct Given {
    shape: Vec<i64>,
    strides: Vec<i64>,
    _tensor: Tensor,
}

fn refused(text: impl Into<String>) -> PyErr {
    raised(Kind::Buffer, text.into())
}

/// DLPack's code and bits of a type.
fn code_of(dtype: DType) -> DlDataType {
    let (code, bits) = match dtype {
        DType::F32 => (2, 32),
        DType::F16 => (2, 16),
        DType::BF16 => (4, 16),
        DType::I32 => (0, 32),
        DType::U32 => (1, 32),
        DType::I8 => (0, 8),
        DType::U8 => (1, 8),
        DType::Bool => (6, 8),
    };
    DlDataType {
        code,
        bits,
        lanes: 1,
    }
}

fn device_of(x: &Tensor) -> (i32, i32) {
    let selector = &x.device().info().selector;
    let index = selector.split(':').nth(1).and_then(|index| index.parse().ok());
    match x.device().is_cpu() {
        true => (CPU, 0),
        false => (VULKAN, index.unwrap_or(0)),
    }
}

/// The array of a CPU tensor, and what it points to.
fn described(x: Tensor) -> PyResult<(DlTensor, *mut c_void)> {
    let Some(data) = address(&x)? else {
        return Err(refused("__dlpack__: the tensor is not on the CPU"));
    };
    let dtype = code_of(x.dtype());
    let given = Box::new(Given {
        shape: x.shape().iter().map(|&extent| extent as i64).collect(),
        strides: x.layout().strides().iter().map(|&stride| stride as i64).collect(),
        _tensor: x,
    });
    let tensor = DlTensor {
        data: data.cast(),
        device_type: CPU,
        device_id: 0,
        ndim: given.shape.len() as i32,
        dtype,
        shape: given.shape.as_ptr().cast_mut(),
        strides: given.strides.as_ptr().cast_mut(),
        byte_offset: 0,
    };
    Ok((tensor, Box::into_raw(given).cast()))
}

unsafe extern "C" fn delete(managed: *mut Managed) {
    // SAFETY: both were boxes that `capsule` has made; the consumer calls this once.
    unsafe {
        let managed = Box::from_raw(managed);
        drop(Box::from_raw(managed.context.cast::<Given>()));
    }
}

unsafe extern "C" fn delete_versioned(managed: *mut ManagedVersioned) {
    // SAFETY: as above.
    unsafe {
        let managed = Box::from_raw(managed);
        drop(Box::from_raw(managed.context.cast::<Given>()));
    }
}

/// Frees what no consumer has taken: one that takes it renames the capsule.
unsafe extern "C" fn end_of_capsule(capsule: *mut ffi::PyObject) {
    // SAFETY: Python calls this with the capsule, whose pointer is of the type that its name tells.
    unsafe {
        if ffi::PyCapsule_IsValid(capsule, VERSIONED.as_ptr()) != 0 {
            delete_versioned(ffi::PyCapsule_GetPointer(capsule, VERSIONED.as_ptr()).cast());
        } else if ffi::PyCapsule_IsValid(capsule, PLAIN.as_ptr()) != 0 {
            delete(ffi::PyCapsule_GetPointer(capsule, PLAIN.as_ptr()).cast());
        }
    }
}

fn capsule<'py>(py: Python<'py>, x: Tensor, versioned: bool, flags: u64) -> PyResult<Bound<'py, PyAny>> {
    let (tensor, context) = described(x)?;
    let (pointer, name): (*mut c_void, _) = match versioned {
        true => {
            let managed = ManagedVersioned {
                version: [1, 0],
                context,
                deleter: Some(delete_versioned),
                flags,
                tensor,
            };
            (Box::into_raw(Box::new(managed)).cast(), VERSIONED)
        }
        false => {
            let managed = Managed {
                tensor,
                context,
                deleter: Some(delete),
            };
            (Box::into_raw(Box::new(managed)).cast(), PLAIN)
        }
    };
    // SAFETY: the pointer is a box of the type that the name tells; the capsule frees it if nobody takes it.
    unsafe {
        let capsule = ffi::PyCapsule_New(pointer, name.as_ptr(), Some(end_of_capsule));
        Bound::from_owned_ptr_or_err(py, capsule)
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
            return Err(refused("__dlpack__: a stream is given, expected None for the CPU"));
        }
        if x.requires_grad() {
            return Err(refused("__dlpack__: the tensor requires a gradient; use x.detach()"));
        }
        if dl_device.is_some_and(|(kind, _)| kind != CPU) && dl_device != Some(device_of(&x)) {
            let found = dl_device.unwrap_or_default();
            return Err(refused(format!("__dlpack__: dl_device is {found:?}, expected (1, 0)")));
        }
        if !x.device().is_cpu() && dl_device != Some((CPU, 0)) {
            let text = "__dlpack__: no library shares memory with Vulkan; ask for dl_device=(1, 0), a copy on the CPU";
            return Err(refused(text));
        }
        if !x.device().is_cpu() && copy == Some(false) {
            return Err(refused("__dlpack__: a tensor of a GPU comes as a copy, and copy=False is given"));
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

/// Reads an object that has `__dlpack__`, through the CPU.
///
/// # Errors
/// For arrays that HLX cannot read.
pub fn read(value: &Bound<'_, PyAny>, operation: &str) -> PyResult<Host> {
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
    let capsule = match value.call_method("__dlpack__", (), Some(&keywords)) {
        // Libraries from before version 1 know no keywords.
        Err(error) if error.is_instance_of::<pyo3::exceptions::PyTypeError>(py) && on_cpu => {
            value.call_method0("__dlpack__")?
        }
        other => other?,
    };
    read_capsule(&capsule, operation)
}

/// Copies what a capsule holds; the capsule stays its own, and frees it.
fn read_capsule(capsule: &Bound<'_, PyAny>, operation: &str) -> PyResult<Host> {
    let at = |name: &CStr| {
        // SAFETY: the object is alive; a capsule of this name holds a pointer of this type.
        unsafe {
            match ffi::PyCapsule_IsValid(capsule.as_ptr(), name.as_ptr()) {
                0 => ptr::null_mut(),
                _ => ffi::PyCapsule_GetPointer(capsule.as_ptr(), name.as_ptr()),
            }
        }
    };
    let (versioned, plain) = (at(VERSIONED), at(PLAIN));
    // SAFETY: the pointers are of the types that the names tell, and live as long as the capsule.
    let tensor = unsafe {
        match (versioned.is_null(), plain.is_null()) {
            (false, _) => {
                let managed = &*versioned.cast::<ManagedVersioned>();
                if managed.version[0] != 1 {
                    let found = managed.version[0];
                    return Err(refused(format!("{operation}: DLPack's version is {found}, expected 1")));
                }
                &managed.tensor
            }
            (true, false) => &(*plain.cast::<Managed>()).tensor,
            (true, true) => return Err(type_error(format!("{operation}: no DLPack capsule"))),
        }
    };
    if tensor.device_type != CPU {
        let found = tensor.device_type;
        return Err(refused(format!("{operation}: DLPack's device is of kind {found}, expected the CPU")));
    }
    let rank = tensor.ndim as usize;
    // SAFETY: DLPack has `ndim` extents, and as many strides or none for row-major order; the elements are at them.
    let (shape, bytes, size) = unsafe {
        let numbers = |pointer: *mut i64| match rank {
            0 => &[][..],
            _ => std::slice::from_raw_parts(pointer, rank),
        };
        let shape: Vec<usize> = numbers(tensor.shape).iter().map(|&extent| extent as usize).collect();
        let size = usize::from(tensor.dtype.bits) / 8;
        let strides: Vec<isize> = match tensor.strides.is_null() {
            false => numbers(tensor.strides).iter().map(|&it| it as isize * size as isize).collect(),
            true => row_major(&shape, size),
        };
        let first = tensor.data.cast::<u8>().cast_const().wrapping_add(tensor.byte_offset as usize);
        let bytes = gathered(first, &shape, &strides, size);
        (shape, bytes, size)
    };
    let code = match (tensor.dtype.code, tensor.dtype.bits, tensor.dtype.lanes) {
        (0, 8, 1) => "b",
        (0, 16, 1) => "h",
        (0, 32, 1) => "i",
        (0, 64, 1) => "q",
        (1, 8, 1) => "B",
        (1, 16, 1) => "H",
        (1, 32, 1) => "I",
        (1, 64, 1) => "Q",
        (2, 16, 1) => "e",
        (2, 32, 1) => "f",
        (2, 64, 1) => "d",
        (6, 8, 1) => "?",
        (4, 16, 1) => {
            let (pairs, _) = bytes.as_chunks::<2>();
            let values = pairs.iter().map(|&pair| bf16::from_bits(u16::from_ne_bytes(pair)));
            let elements = Elements::BF16(values.collect());
            return Ok(Host { shape, elements });
        }
        (code, bits, lanes) => {
            let text = format!("{operation}: elements of DLPack's type ({code}, {bits}, {lanes}) have no type in HLX");
            return Err(type_error(text));
        }
    };
    let elements = Elements::from_format(code, size, &bytes)?;
    Ok(Host { shape, elements })
}

/// A tensor of another library's array. That of a tensor of HLX's shares its memory; others are copied.
#[pyfunction]
#[pyo3(signature = (x, /, *, device = None, copy = None))]
pub fn from_dlpack(
    py: Python<'_>,
    x: &Bound<'_, PyAny>,
    device: Option<&Bound<'_, PyAny>>,
    copy: Option<bool>,
) -> PyResult<PyTensor> {
    const OPERATION: &str = "from_dlpack";
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
            (false, Some(false)) => Err(refused("from_dlpack: another device needs a copy, and copy=False is given")),
            _ => run(py, move || cloned(&tensor.to(&target)?)).map(PyTensor::from),
        };
    }
    if copy == Some(false) {
        return Err(refused("from_dlpack: HLX copies arrays of other libraries, and copy=False is given"));
    }
    let device = match named {
        Some(_) => PyDevice::from_argument(named)?,
        None => PyDevice::cpu(),
    };
    if !x.hasattr("__dlpack__")? {
        let host = read_capsule(x, OPERATION)?;
        return host.into_tensor(&device.open(py)?, OPERATION);
    }
    let host = read(x, OPERATION)?;
    host.into_tensor(&device.open(py)?, OPERATION)
}
