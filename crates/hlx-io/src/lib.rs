//! Tensors from and to `ndarray` arrays, and the files that Python reads: safetensors, npy and npz.
//!
//! | here | Python |
//! |---|---|
//! | [`from_ndarray`], [`to_ndarray`] | `torch.from_numpy(a)`, `x.numpy()` |
//! | [`save_safetensors`], [`load_safetensors`] | `safetensors.torch.save_file`, `load_file` |
//! | [`save_npy`], [`load_npy`] | `numpy.save`, `numpy.load` |
//! | [`save_npz`], [`load_npz`] | `numpy.savez`, `numpy.load` |
//!
//! HLX has no 64-bit types and no 16-bit integers: such integers are read as i32 (u64 as u32), and one
//! that does not fit is an error that names its place; f64 is rounded to f32. f32 and bf16 subnormals
//! become zeros of their sign, as no tensor holds one; all else is kept bit for bit. A file is replaced
//! as one: an interruption leaves the old one.
//!
//! ```
//! use hlx_autograd::{DType, Tensor};
//! use hlx_io::{from_ndarray, to_ndarray};
//! use ndarray::{Ix2, array};
//!
//! let device = hlx_core::Device::open("cpu").map_err(hlx_autograd::AutogradError::from)?;
//! let x = from_ndarray(&device, &array![[1_i64, 2], [3, 4]])?;
//! assert_eq!(x.dtype(), DType::I32);
//! let y = to_ndarray::<i32, Ix2>(&x.transpose(0, 1)?)?;
//! assert_eq!(y, array![[1, 3], [2, 4]]);
//! # Ok::<(), hlx_io::IoError>(())
//! ```

mod array;
mod bytes;
mod error;
mod npy;
mod npy_header;
mod safetensors;
mod source;

pub use array::{from_ndarray, to_ndarray};
pub use error::IoError;
pub use npy::{load_npy, load_npz, save_npy, save_npz};
pub use safetensors::{from_safetensors, load_safetensors, save_safetensors, to_safetensors};
pub use source::Source;

/// The result of a conversion, or of reading or writing a file.
pub type Result<T, E = IoError> = std::result::Result<T, E>;
