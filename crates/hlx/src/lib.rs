//! HLX as one crate: training and running neural networks with the same bits on any Vulkan GPU and on the CPU.
//!
//! The package is `hlx-ml`, the library `hlx`. A program begins with [`prelude`]; each module is one of
//! HLX's crates.
//!
//! ```
//! use hlx::prelude::*;
//!
//! # fn main() -> Result<()> {
//! let device = Device::open("cpu")?;
//! let model = Model::new(&device, 42, |b| MLP::new(b, &[2, 16, 2], Activation::Tanh))?;
//! let x = Tensor::from_slice(&device, &[0.0, 1.0, 1.0, 0.0], &[2, 2])?;
//! let logits = model.forward(&x, &Mode::eval())?;
//! assert_eq!(logits.shape(), [2, 2]);
//! # Ok(())
//! # }
//! ```

mod error;
pub mod optim;
pub mod prelude;

pub use error::{Error, Result};
#[doc(inline)]
pub use hlx_autograd as tensor;
#[doc(inline)]
pub use hlx_core as device;
pub use hlx_core::Device;
#[doc(inline)]
pub use hlx_data as data;
#[doc(inline)]
pub use hlx_io as io;
#[doc(inline)]
pub use hlx_kernels as kernels;
#[doc(inline)]
pub use hlx_nn as nn;
#[doc(inline)]
pub use hlx_text as text;
