//! DLPack, version 1: arrays between libraries (<https://dmlc.github.io/dlpack/latest/c_api.html>).

use std::ffi::{CStr, c_void};
use std::ptr;

use half::bf16;
use hlx_autograd::Tensor;
use hlx_core::{DType, Device};
use pyo3::exceptions::PyTypeError;
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::buffers::address;
use crate::copies::cloned;
use crate::device::PyDevice;
use crate::error::{Kind, of_core, of_tensor, raised, type_error};
use crate::host::{Elements, Host, gathered, row_major};
use crate::tensor::PyTensor;
use crate::wait::run;

/// DLPack's number of the CPU.
const CPU: i32 = 1;
/// DLPack's number of Vulkan.
const VULKAN: i32 = 7;
/// The flag of an array that must not be written.
const IS_READ_ONLY: u64 = 1;
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
    let index = selector
        .split(':')
        .nth(1)
        .and_then(|index| index.parse().ok());
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
        strides: x
            .layout()
            .strides()
            .iter()
            .map(|&stride| stride as i64)
            .collect(),
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

fn capsule<'py>(
    py: Python<'py>,
    x: Tensor,
    versioned: bool,
    flags: u64,
) -> PyResult<Bound<'py, PyAny>> {
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

/// A capsule's array.
struct Array<'a> {
    tensor: &'a DlTensor,
    flags: u64,
    shape: Vec<usize>,
    /// In bytes.
    strides: Vec<isize>,
    size: usize,
}

impl<'a> Array<'a> {
    /// The array in a capsule, which nobody has taken.
    fn of(capsule: &'a Bound<'_, PyAny>, operation: &str) -> PyResult<Self> {
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
        let (tensor, flags) = unsafe {
            match (versioned.is_null(), plain.is_null()) {
                (false, _) => {
                    let managed = &*versioned.cast::<ManagedVersioned>();
                    if managed.version[0] != 1 {
                        let found = managed.version[0];
                        let text = format!("{operation}: DLPack's version is {found}, expected 1");
                        return Err(refused(text));
                    }
                    (&managed.tensor, managed.flags)
                }
                (true, false) => (&(*plain.cast::<Managed>()).tensor, 0),
                (true, true) => {
                    let text =
                        format!("{operation}: expected an array with __dlpack__, or its capsule");
                    return Err(type_error(text));
                }
            }
        };
        if tensor.device_type != CPU {
            let found = tensor.device_type;
            let text = format!("{operation}: DLPack's device is of kind {found}, expected the CPU");
            return Err(refused(text));
        }
        let size = usize::from(tensor.dtype.bits) / 8;
        let numbers = |pointer: *mut i64| match (tensor.ndim, pointer.is_null()) {
            // SAFETY: DLPack has `ndim` extents, and as many strides or none for row-major order.
            (1.., false) => unsafe { std::slice::from_raw_parts(pointer, tensor.ndim as usize) },
            _ => &[],
        };
        let shape: Vec<usize> = numbers(tensor.shape)
            .iter()
            .map(|&it| it as usize)
            .collect();
        let strides = match tensor.strides.is_null() {
            true => row_major(&shape, size),
            false => {
                let strides = numbers(tensor.strides).iter();
                strides.map(|&it| it as isize * size as isize).collect()
            }
        };
        Ok(Self {
            tensor,
            flags,
            shape,
            strides,
            size,
        })
    }

    /// The address of the first element.
    fn address(&self) -> *mut u8 {
        let base = self.tensor.data.cast::<u8>();
        base.wrapping_add(self.tensor.byte_offset as usize)
    }

    fn copied(&self, operation: &str) -> PyResult<Host> {
        // SAFETY: DLPack's elements are at these places for as long as the capsule lives.
        let bytes = unsafe { gathered(self.address(), &self.shape, &self.strides, self.size) };
        let shape = self.shape.clone();
        let DlDataType { code, bits, lanes } = self.tensor.dtype;
        let format = match (code, bits, lanes) {
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
                let values = pairs
                    .iter()
                    .map(|&pair| bf16::from_bits(u16::from_ne_bytes(pair)));
                let elements = Elements::BF16(values.collect());
                return Ok(Host { shape, elements });
            }
            _ => {
                let text = format!(
                    "{operation}: elements of DLPack's type ({code}, {bits}, {lanes}) have no type in HLX"
                );
                return Err(type_error(text));
            }
        };
        let elements = Elements::from_format(format, self.size, &bytes)?;
        Ok(Host { shape, elements })
    }

    /// The type of a tensor that can share the memory: elements of a type of HLX's, in row-major order, that may be
    /// written, and no float that HLX counts as zero.
    fn shareable(&self) -> Option<DType> {
        let of = |dtype: &DType| {
            let own = code_of(*dtype);
            let DlDataType { code, bits, lanes } = self.tensor.dtype;
            (own.code, own.bits, own.lanes) == (code, bits, lanes)
        };
        let dtype = DType::ALL.into_iter().find(of)?;
        let may_be_written = self.flags & IS_READ_ONLY == 0;
        let is_dense = self.strides == row_major(&self.shape, self.size);
        let n: usize = self.shape.iter().product();
        if !may_be_written || !is_dense || n == 0 || !(self.address() as usize).is_multiple_of(4) {
            return None;
        }
        if dtype == DType::F32 {
            // SAFETY: the elements are in row-major order, aligned, and alive.
            let values = unsafe { std::slice::from_raw_parts(self.address().cast::<f32>(), n) };
            if values.iter().any(|value| value.is_subnormal()) {
                return None;
            }
        }
        Some(dtype)
    }
}

/// An array that was taken from its capsule: what frees it.
enum Taken {
    Plain(*mut Managed),
    Versioned(*mut ManagedVersioned),
}

// SAFETY: the array is freed by one thread, once, with the interpreter's lock held.
unsafe impl Send for Taken {}
// SAFETY: as above; nothing is read through it.
unsafe impl Sync for Taken {}

impl Taken {
    /// Takes the array out of a capsule, by the new name that DLPack wants.
    fn from(capsule: &Bound<'_, PyAny>) -> PyResult<Self> {
        let object = capsule.as_ptr();
        // SAFETY: the object is alive; a capsule of this name holds a pointer of this type.
        unsafe {
            let (name, used) = match ffi::PyCapsule_IsValid(object, VERSIONED.as_ptr()) {
                0 => (PLAIN, c"used_dltensor"),
                _ => (VERSIONED, c"used_dltensor_versioned"),
            };
            let pointer = ffi::PyCapsule_GetPointer(object, name.as_ptr());
            if pointer.is_null() || ffi::PyCapsule_SetName(object, used.as_ptr()) != 0 {
                return Err(PyErr::fetch(capsule.py()));
            }
            Ok(match name == PLAIN {
                true => Self::Plain(pointer.cast()),
                false => Self::Versioned(pointer.cast()),
            })
        }
    }
}

impl Drop for Taken {
    fn drop(&mut self) {
        // At the interpreter's end there is no lock to take, and nothing to free any more.
        let _ = Python::try_attach(|_| {
            // SAFETY: the pointer is the producer's, and this is the one call of its deleter.
            unsafe {
                match *self {
                    Self::Plain(managed) => {
                        if let Some(deleter) = (*managed).deleter {
                            deleter(managed);
                        }
                    }
                    Self::Versioned(managed) => {
                        if let Some(deleter) = (*managed).deleter {
                            deleter(managed);
                        }
                    }
                }
            }
        });
    }
}

/// A tensor over the memory of a capsule's array; `None` where that cannot be shared.
fn shared(capsule: &Bound<'_, PyAny>, device: &Device) -> PyResult<Option<PyTensor>> {
    let (dtype, address, shape) = {
        let array = Array::of(capsule, OPERATION)?;
        match array.shareable() {
            Some(dtype) if device.is_cpu() => (dtype, array.address(), array.shape),
            _ => return Ok(None),
        }
    };
    let len = shape.iter().product();
    if !usize::is_multiple_of(len, dtype.per_word()) {
        return Ok(None);
    }
    let owner = Box::new(Taken::from(capsule)?);
    // SAFETY: the array lives until `owner` calls its deleter, and `shareable` has seen its elements.
    let buffer = unsafe { device.share_host(address, (dtype, len), owner) }.map_err(of_core)?;
    let Some(buffer) = buffer else {
        return Err(refused("from_dlpack: the array cannot be shared"));
    };
    let tensor = Tensor::from_buffer(device, buffer, &shape).map_err(of_tensor)?;
    Ok(Some(tensor.into()))
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
