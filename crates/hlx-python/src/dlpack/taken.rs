//! Arrays whose memory a tensor shares: taken out of their capsules, and freed once.

use hlx_autograd::Tensor;
use hlx_core::Device;
use pyo3::ffi;
use pyo3::prelude::*;

use super::abi::{Managed, ManagedVersioned, PLAIN, VERSIONED};
use super::array::Array;
use super::{OPERATION, refused};
use crate::error::{of_core, of_tensor};
use crate::tensor::PyTensor;

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
pub fn shared(capsule: &Bound<'_, PyAny>, device: &Device) -> PyResult<Option<PyTensor>> {
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
