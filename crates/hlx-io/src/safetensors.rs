//! Safetensors: named tensors in one file.

use std::collections::BTreeMap;
use std::path::Path;

use half::{bf16, f16};
use hlx_autograd::{DType, Tensor};
use hlx_core::{Device, files};
use safetensors::tensor::{Dtype, SafeTensors, TensorView};

use crate::bytes::{bytes_of, elements};
use crate::{IoError, Result};

/// Writes named tensors to a file, as `safetensors.torch.save_file`; waits for the device.
///
/// # Errors
/// [`IoError::File`] with the system's reason, and what the device reports.
pub fn save_safetensors(path: &Path, tensors: &BTreeMap<String, Tensor>) -> Result<()> {
    let bytes = to_safetensors(tensors)?;
    let written = files::write_atomically(path, &bytes);
    written.map_err(|error| IoError::file("save_safetensors", path, error))
}

/// Reads the tensors of a file, as `safetensors.torch.load_file`.
///
/// # Errors
/// [`IoError::File`] for a file that is missing, cut short or malformed, or a tensor of a type that
/// HLX has no counterpart of; [`IoError::Range`] for an integer that does not fit.
pub fn load_safetensors(device: &Device, path: &Path) -> Result<BTreeMap<String, Tensor>> {
    const OP: &str = "load_safetensors";
    let bytes = files::read(path).map_err(|error| IoError::file(OP, path, error))?;
    decoded(device, OP, &bytes).map_err(|error| match error {
        IoError::Argument { reason, .. } => IoError::file(OP, path, reason),
        other => other,
    })
}

/// The bytes of a safetensors file of named tensors; waits for the device.
///
/// # Errors
/// What the device reports.
pub fn to_safetensors(tensors: &BTreeMap<String, Tensor>) -> Result<Vec<u8>> {
    const OP: &str = "to_safetensors";
    let refused = |error: safetensors::SafeTensorError| IoError::argument(OP, error.to_string());
    let mut data = Vec::with_capacity(tensors.len());
    for tensor in tensors.values() {
        data.push(bytes_of(tensor)?);
    }
    let mut views = Vec::with_capacity(tensors.len());
    for ((name, tensor), bytes) in tensors.iter().zip(&data) {
        let (dtype, shape) = (file_type(tensor.dtype()), tensor.shape().to_vec());
        views.push((name, TensorView::new(dtype, shape, bytes).map_err(refused)?));
    }
    safetensors::serialize(views, None).map_err(refused)
}

/// Reads named tensors from the bytes of a safetensors file.
///
/// # Errors
/// [`IoError::Argument`] for bytes that are not such a file, or a tensor of a type that HLX has no
/// counterpart of; [`IoError::Range`] for an integer that does not fit.
pub fn from_safetensors(device: &Device, bytes: &[u8]) -> Result<BTreeMap<String, Tensor>> {
    decoded(device, "from_safetensors", bytes)
}

fn decoded(device: &Device, op: &'static str, bytes: &[u8]) -> Result<BTreeMap<String, Tensor>> {
    let file = SafeTensors::deserialize(bytes);
    let file = file.map_err(|error| IoError::argument(op, error.to_string()))?;
    let tensor = |(name, view): (&str, TensorView<'_>)| {
        Ok((name.to_owned(), tensor_from(device, (op, name), &view)?))
    };
    file.iter().map(tensor).collect()
}

const fn file_type(dtype: DType) -> Dtype {
    match dtype {
        DType::F32 => Dtype::F32,
        DType::F16 => Dtype::F16,
        DType::BF16 => Dtype::BF16,
        DType::I32 => Dtype::I32,
        DType::U32 => Dtype::U32,
        DType::I8 => Dtype::I8,
        DType::U8 => Dtype::U8,
        DType::Bool => Dtype::BOOL,
    }
}

fn tensor_from(
    device: &Device,
    name: (&'static str, &str),
    view: &TensorView<'_>,
) -> Result<Tensor> {
    macro_rules! read {
        ($type:ty) => {
            elements(
                device,
                name,
                view.shape(),
                view.data(),
                <$type>::from_le_bytes,
            )
        };
    }
    match view.dtype() {
        Dtype::F32 => read!(f32),
        Dtype::F64 => read!(f64),
        Dtype::F16 => read!(f16),
        Dtype::BF16 => read!(bf16),
        Dtype::I8 => read!(i8),
        Dtype::U8 => read!(u8),
        Dtype::I16 => read!(i16),
        Dtype::U16 => read!(u16),
        Dtype::I32 => read!(i32),
        Dtype::U32 => read!(u32),
        Dtype::I64 => read!(i64),
        Dtype::U64 => read!(u64),
        Dtype::BOOL => {
            let boolean = |[byte]: [u8; 1]| byte != 0;
            elements(device, name, view.shape(), view.data(), boolean)
        }
        other => {
            let reason = format!(
                "{} has elements of {other:?}, which no tensor stores",
                name.1
            );
            Err(IoError::argument(name.0, reason))
        }
    }
}
