//! Elements as the bytes of files.

use half::{bf16, f16};
use hlx_autograd::{DType, Tensor};
use hlx_core::Device;
use hlx_core::bytes::little_endian;

use crate::Result;
use crate::source::{Source, tensor_of};

/// The elements' bytes, little-endian.
pub(crate) fn bytes_of(tensor: &Tensor) -> Result<Vec<u8>> {
    macro_rules! bytes {
        ($type:ty) => {{
            let elements = tensor.to_vec::<$type>()?;
            little_endian(&elements).into_owned()
        }};
    }
    Ok(match tensor.dtype() {
        DType::F32 => bytes!(f32),
        DType::F16 => bytes!(f16),
        DType::BF16 => bytes!(bf16),
        DType::I32 => bytes!(i32),
        DType::U32 => bytes!(u32),
        DType::I8 => bytes!(i8),
        DType::U8 => tensor.to_vec::<u8>()?,
        DType::Bool => {
            let elements = tensor.to_vec::<hlx_core::Bool>()?;
            elements.into_iter().map(|x| bool::from(x).into()).collect()
        }
    })
}

/// Makes a tensor of data, each element read from `N` bytes.
pub(crate) fn elements<S: Source, const N: usize>(
    device: &Device,
    name: (&'static str, &str),
    shape: &[usize],
    data: &[u8],
    read: impl Fn([u8; N]) -> S,
) -> Result<Tensor> {
    let (whole, _) = data.as_chunks::<N>();
    // `tensor_of` compares their number with the shape's.
    let elements = whole.iter().map(|&bytes| read(bytes));
    tensor_of(device, name, elements, shape)
}
