//! Python's buffer protocol: the memory of CPU tensors for others, and that of others for tensors.

use std::ffi::{CStr, c_int, c_void};

use hlx_autograd::Tensor;
use hlx_core::DType;
use pyo3::exceptions::PyBufferError;
use pyo3::ffi;
use pyo3::prelude::*;

use crate::error::{Kind, of_core, raised};
use crate::host::{Elements, Host, gathered, row_major};
use crate::tensor::PyTensor;

/// The address of a tensor's first element on the CPU device; `None` on others.
pub fn address(x: &Tensor) -> PyResult<Option<*mut u8>> {
    let operand = x.operand();
    let base = x.device().host_address(operand.buffer).map_err(of_core)?;
    let offset = operand.layout.offset() * x.dtype().size();
    // SAFETY: a layout's places are within its buffer.
    Ok(base.map(|base| unsafe { base.add(offset) }))
}

/// The letter of a type in Python's `struct`; `None` for bfloat16, which it lacks.
fn format(dtype: DType) -> Option<&'static CStr> {
    Some(match dtype {
        DType::F32 => c"f",
        DType::F16 => c"e",
        DType::I32 => c"i",
        DType::U32 => c"I",
        DType::I8 => c"b",
        DType::U8 => c"B",
        DType::Bool => c"?",
        DType::BF16 => return None,
    })
}

/// What a view of Python's holds: the tensor, and the numbers that the view points to.
struct Shown {
    shape: Vec<isize>,
    strides: Vec<isize>,
    _tensor: Tensor,
}

fn refused(reason: &str) -> PyErr {
    raised(Kind::Buffer, format!("buffer: {reason}"))
}

#[pymethods]
impl PyTensor {
    /// A view of the memory of a CPU tensor, without a copy.
    ///
    /// # Safety
    /// `view` is Python's, to be filled.
    unsafe fn __getbuffer__(
        slf: Bound<'_, Self>,
        view: *mut ffi::Py_buffer,
        flags: c_int,
    ) -> PyResult<()> {
        if view.is_null() {
            return Err(PyBufferError::new_err("buffer: no view is given"));
        }
        let x = slf.get().handle();
        if x.requires_grad() {
            return Err(refused("the tensor requires a gradient; use x.detach()"));
        }
        let Some(address) = address(&x)? else {
            return Err(refused("the tensor is on a GPU; use x.cpu()"));
        };
        let Some(format) = format(x.dtype()) else {
            return Err(refused("there is no code for bfloat16; use x.float()"));
        };
        let is_dense = x.layout().is_contiguous();
        if flags & ffi::PyBUF_STRIDES != ffi::PyBUF_STRIDES && !is_dense {
            return Err(refused(
                "the elements are not in row-major order; use x.contiguous()",
            ));
        }
        let size = x.dtype().size() as isize;
        let shape: Vec<isize> = x.shape().iter().map(|&extent| extent as isize).collect();
        let strides = x.layout().strides().iter();
        let strides: Vec<isize> = strides.map(|&stride| stride * size).collect();
        let (len, rank) = (x.n_elements() as isize * size, shape.len());
        let shown = Box::new(Shown {
            shape,
            strides,
            _tensor: x,
        });
        // SAFETY: the view is Python's and lives until `__releasebuffer__`, which frees what it points to; the
        // tensor in `shown` keeps the memory.
        unsafe {
            let view = &mut *view;
            view.buf = address.cast::<c_void>();
            view.len = len;
            view.readonly = 0;
            view.itemsize = size;
            view.format = match flags & ffi::PyBUF_FORMAT {
                0 => std::ptr::null_mut(),
                _ => format.as_ptr().cast_mut(),
            };
            view.ndim = rank as c_int;
            view.shape = match flags & ffi::PyBUF_ND {
                0 => std::ptr::null_mut(),
                _ => shown.shape.as_ptr().cast_mut(),
            };
            view.strides = match flags & ffi::PyBUF_STRIDES {
                ffi::PyBUF_STRIDES => shown.strides.as_ptr().cast_mut(),
                _ => std::ptr::null_mut(),
            };
            view.suboffsets = std::ptr::null_mut();
            view.internal = Box::into_raw(shown).cast::<c_void>();
            view.obj = slf.into_any().into_ptr();
        }
        Ok(())
    }

    /// Ends a view.
    ///
    /// # Safety
    /// `view` is one that `__getbuffer__` has filled.
    unsafe fn __releasebuffer__(&self, view: *mut ffi::Py_buffer) {
        // SAFETY: `internal` is the box that `__getbuffer__` has put there.
        drop(unsafe { Box::from_raw((*view).internal.cast::<Shown>()) });
    }
}

/// A buffer of Python's, released when it is dropped.
struct View(Box<ffi::Py_buffer>);

impl Drop for View {
    fn drop(&mut self) {
        // SAFETY: filled by PyObject_GetBuffer; dropped with the interpreter's lock held.
        unsafe { ffi::PyBuffer_Release(&mut *self.0) };
    }
}

/// Reads an object that has a buffer; `None` for others.
pub fn from_buffer(value: &Bound<'_, PyAny>) -> PyResult<Option<Host>> {
    // SAFETY: the object is alive.
    if unsafe { ffi::PyObject_CheckBuffer(value.as_ptr()) } == 0 {
        return Ok(None);
    }
    let mut view = Box::new(ffi::Py_buffer::new());
    // SAFETY: `view` is to be filled.
    let status = unsafe { ffi::PyObject_GetBuffer(value.as_ptr(), &mut *view, ffi::PyBUF_FULL_RO) };
    if status != 0 {
        return Err(PyErr::fetch(value.py()));
    }
    let view = View(view);
    let (rank, size) = (view.0.ndim as usize, view.0.itemsize as usize);
    // SAFETY: a view has as many extents and strides as dimensions, or null for one dimension, or for row-major order.
    let (letters, shape, strides) = unsafe {
        let letters = match view.0.format.is_null() {
            true => c"B",
            false => CStr::from_ptr(view.0.format),
        };
        let numbers = |pointer: *mut isize| match pointer.is_null() || rank == 0 {
            true => None,
            false => Some(std::slice::from_raw_parts(pointer, rank).to_vec()),
        };
        (
            letters.to_string_lossy(),
            numbers(view.0.shape),
            numbers(view.0.strides),
        )
    };
    let shape: Vec<usize> = match (shape, rank) {
        (Some(shape), _) => shape.into_iter().map(|extent| extent as usize).collect(),
        (None, 0) => Vec::new(),
        (None, _) => vec![view.0.len as usize / size.max(1)],
    };
    let strides = strides.unwrap_or_else(|| row_major(&shape, size));
    // SAFETY: the view's memory holds the elements at these places until it is released.
    let bytes = unsafe { gathered(view.0.buf.cast::<u8>(), &shape, &strides, size) };
    let elements = Elements::from_format(&letters, size, &bytes)?;
    Ok(Some(Host { shape, elements }))
}
