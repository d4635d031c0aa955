//! HLX's own shaders that contracts may name without a store.
//!
//! The CPU device has no SPIR-V: it runs a contract only where its shader is one of these, and
//! only with the constants and workgroups of HLX's own launcher: there the twin is known to give
//! the shader's bits.

use std::collections::HashMap;
use std::sync::OnceLock;

use hlx_kernels::plain;
use hlx_store::Handle;

use super::{Encoded, Shader};

/// The tile of products.
pub(crate) const PRODUCT_SHADER: &str = "matmul/tile_64x64";
/// The sum of two tensors, element by element.
pub(crate) const SUM_SHADER: &str = "elementwise/binary";

/// A shader of HLX's.
pub(crate) struct Own {
    /// Its path below `shaders/`: `matmul/tile_64x64`.
    pub name: &'static str,
    shader: fn() -> &'static hlx_core::Shader,
}

impl Own {
    /// Returns the shader as contract 900.
    pub(crate) fn contract(&self) -> Shader {
        Shader::compute((self.shader)().bytes())
    }
}

static OWN: [Own; 2] = [
    Own {
        name: PRODUCT_SHADER,
        shader: plain::product_shader,
    },
    Own {
        name: SUM_SHADER,
        shader: plain::sum_shader,
    },
];

/// Returns one of the shaders that contracts may name without a store, as contract 900:
/// `matmul/tile_64x64` or `elementwise/binary`.
pub fn own_shader(name: &str) -> Option<Shader> {
    let own = OWN.iter().find(|own| own.name == name)?;
    Some(own.contract())
}

/// Finds one of HLX's own shaders.
pub(crate) fn by_handle(handle: &Handle) -> Option<&'static Own> {
    static BY_HANDLE: OnceLock<HashMap<Handle, &'static Own>> = OnceLock::new();
    let all = BY_HANDLE.get_or_init(|| {
        let entry = |own: &'static Own| Some((own.contract().handle().ok()?, own));
        OWN.iter().filter_map(entry).collect()
    });
    all.get(handle).copied()
}
