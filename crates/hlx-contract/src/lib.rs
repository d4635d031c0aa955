//! Kernels by contract: GPU work as values, each with one handle, and their execution.
//!
//! - [`Shader`] (contract 900): SPIR-V, an entry point and its stage;
//! - [`Kernel`] (contract 901): a shader by handle, its workgroups, constants, inputs and outputs;
//! - [`Pipeline`] (contract 902): kernels in order, and the buffers that link them.
//!
//! Below them, a [`Program`] is a shader that is launched over buffers, with the same checks.
//!
//! A value has one canonical encoding (binary, by `bincode` with a fixed configuration) and one
//! handle, the SHA-256 of it as an object of the content store ([`hlx_store`]); its JSON
//! form says the same and has the same handle. Executing a contract takes tensors out of the
//! store by their handles and puts the results back: the handle that comes out is a function of
//! the handle that goes in, on every device. `docs/contracts.md` has the formats and says what is
//! checked.
//!
//! ```
//! use hlx_core::Device;
//! use hlx_store::{Dtype, Store};
//! use hlx_contract::{Execute, product};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let folder = std::env::temp_dir().join(format!("hlx-contract-doc-{}", std::process::id()));
//! let store = Store::open(&folder)?;
//! let bytes = |values: [f32; 4]| values.map(f32::to_le_bytes).concat();
//! let a = store.put_tensor(Dtype::F32, &[2, 2], &bytes([1.0, 2.0, 3.0, 4.0]))?;
//! let b = store.put_tensor(Dtype::F32, &[2, 2], &bytes([1.0, 0.0, 0.0, 1.0]))?;
//! let bias = store.put_tensor(Dtype::F32, &[2], &[0; 8])?;
//! let kernel = product("times_one", [2, 2, 2], [a, b, bias].map(Some))?;
//!
//! let c = Device::cpu()?.execute_in(&store, &kernel)?.handle;
//! assert_eq!(c, a);
//! # let _ = std::fs::remove_dir_all(folder);
//! # Ok(())
//! # }
//! ```

mod base64;
mod check;
mod compute;
mod encoding;
mod error;
mod execute;
mod kernel;
mod loaded;
mod own;
mod pipeline;
mod product;
mod scalar;
mod shader;
pub mod spirv;
#[cfg(test)]
mod tests;
mod twins;

pub use compute::Program;
pub use encoding::{Contract, Encoded};
pub use error::ContractError;
pub use execute::{Executable, Execute, Execution, NamedHandle, Prepared};
pub use kernel::{Input, Kernel, Output, SpecializationConstant};
pub use loaded::{inspect, interface};
pub use own::own_shader;
pub use pipeline::{Link, Pipeline, Port};
pub use product::{pipeline_example, product, product_example, sum};
pub use scalar::Scalar;
pub use shader::{Shader, Stage};
