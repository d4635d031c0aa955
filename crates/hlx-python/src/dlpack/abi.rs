//! DLPack's structs and numbers, as its header in C has them.

use std::ffi::{CStr, c_void};

use hlx_core::DType;

/// DLPack's number of the CPU.
pub const CPU: i32 = 1;
/// DLPack's number of Vulkan.
pub const VULKAN: i32 = 7;
/// The flag of an array that must not be written.
pub const IS_READ_ONLY: u64 = 1;
/// The flag of an array that is a copy.
pub const IS_COPIED: u64 = 2;

pub const PLAIN: &CStr = c"dltensor";
pub const VERSIONED: &CStr = c"dltensor_versioned";

#[repr(C)]
pub struct DlDataType {
    pub code: u8,
    pub bits: u8,
    pub lanes: u16,
}

#[repr(C)]
pub struct DlTensor {
    pub data: *mut c_void,
    pub device_type: i32,
    pub device_id: i32,
    pub ndim: i32,
    pub dtype: DlDataType,
    pub shape: *mut i64,
    pub strides: *mut i64,
    pub byte_offset: u64,
}

#[repr(C)]
pub struct Managed {
    pub tensor: DlTensor,
    pub context: *mut c_void,
    pub deleter: Option<unsafe extern "C" fn(*mut Managed)>,
}

#[repr(C)]
pub struct ManagedVersioned {
    pub version: [u32; 2],
    pub context: *mut c_void,
    pub deleter: Option<unsafe extern "C" fn(*mut ManagedVersioned)>,
    pub flags: u64,
    pub tensor: DlTensor,
}

/// DLPack's code and bits of a type.
pub fn code_of(dtype: DType) -> DlDataType {
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
