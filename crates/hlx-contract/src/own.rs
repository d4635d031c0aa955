//! HLX's own shaders that contracts may name without a store, and their CPU twins.
//!
//! The CPU device has no SPIR-V: it runs a contract only where its shader is one of these, and
//! only with the constants and workgroups of HLX's own launcher: there the twin is known to give
//! the shader's bits.

use std::collections::HashMap;
use std::sync::OnceLock;

use hlx_core::{Buffer, Device};
use hlx_kernels::plain;
use hlx_store::Handle;

use super::{ContractError, Encoded, Kernel, Shader, product};

/// Launches a kernel's twin on buffers in binding order.
type Twin = fn(&Device, &Kernel, &[Buffer]) -> Result<(), ContractError>;

/// A shader of HLX's.
pub(crate) struct Own {
    /// Its path below `shaders/`: `matmul/tile_64x64`.
    name: &'static str,
    shader: fn() -> &'static hlx_core::Shader,
    pub twin: Twin,
}

impl Own {
    /// Returns the shader as contract 900.
    pub(crate) fn contract(&self) -> Option<Shader> {
        Some(Shader::compute((self.shader)().bytes()))
    }
}

static OWN: [Own; 2] = [
    Own {
        name: "matmul/tile_64x64",
        shader: plain::product_shader,
        twin: product::product_twin,
    },
    Own {
        name: "elementwise/binary",
        shader: plain::sum_shader,
        twin: product::sum_twin,
    },
];

/// Returns one of the shaders that contracts may name without a store, as contract 900:
/// `matmul/tile_64x64` or `elementwise/binary`.
pub fn own_shader(name: &str) -> Option<Shader> {
    let own = OWN.iter().find(|own| own.name == name)?;
    own.contract()
}

/// Finds one of HLX's own shaders.
pub(crate) fn by_handle(handle: &Handle) -> Option<&'static Own> {
    static BY_HANDLE: OnceLock<HashMap<Handle, &'static Own>> = OnceLock::new();
    let all = BY_HANDLE.get_or_init(|| {
        let entry = |own: &'static Own| Some((own.contract()?.handle().ok()?, own));
        OWN.iter().filter_map(entry).collect()
    });
    all.get(handle).copied()
}

/// The CPU device's error for a contract that has no twin.
pub(crate) fn no_twin(device: &Device, kernel: &Kernel, why: &str) -> ContractError {
    ContractError::Device {
        contract: kernel.name.clone(),
        device: device.info().name.clone(),
        reason: format!("{why}; the CPU device runs HLX's own kernels, a Vulkan device any"),
    }
}
