//! Tensors that other libraries read: capsules that are made here.

use std::ffi::c_void;

use hlx_autograd::Tensor;
use pyo3::ffi;
use pyo3::prelude::*;

use super::abi::{CPU, DlTensor, Managed, ManagedVersioned, PLAIN, VERSIONED, code_of};
use super::refused;
use crate::buffers::address;

/// What an array that was given away holds.
struct Given {
    shape: Vec<i64>,
    strides: Vec<i64>,
    _tensor: Tensor,
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

pub fn capsule<'py>(
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
