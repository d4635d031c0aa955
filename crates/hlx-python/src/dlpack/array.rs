//! Arrays of other libraries: what a capsule holds, and the values in it.

use std::ffi::CStr;
use std::ptr;

use half::bf16;
use hlx_core::DType;
use pyo3::ffi;
use pyo3::prelude::*;

use super::abi::{
    CPU, DlDataType, DlTensor, IS_READ_ONLY, Managed, ManagedVersioned, PLAIN, VERSIONED, code_of,
};
use super::refused;
use crate::error::type_error;
use crate::host::{Elements, Host, gathered, row_major};

/// A capsule's array.
pub struct Array<'a> {
    tensor: &'a DlTensor,
    flags: u64,
    pub shape: Vec<usize>,
    /// In bytes.
    strides: Vec<isize>,
    size: usize,
}

impl<'a> Array<'a> {
    /// The array in a capsule, which nobody has taken.
    pub fn of(capsule: &'a Bound<'_, PyAny>, operation: &str) -> PyResult<Self> {
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
    pub fn address(&self) -> *mut u8 {
        let base = self.tensor.data.cast::<u8>();
        base.wrapping_add(self.tensor.byte_offset as usize)
    }

    pub fn copied(&self, operation: &str) -> PyResult<Host> {
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
    pub fn shareable(&self) -> Option<DType> {
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
