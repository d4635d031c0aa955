//! The vector addition that the tests of hlx-core launch.

use hlx_core::{Binding, CoreError, Device, Launch, Shader, groups_1d};

static MODULE: &[u8] = include_bytes!("../../spv/examples/vector_add.spv");
// SAFETY: a module of `cargo xtask shaders` that checks its index against the count pushed.
pub static VECTOR_ADD: Shader = unsafe { Shader::new("examples/vector_add", MODULE) };

/// `c = a + b` through the shader or its twin.
pub fn add(
    device: &Device,
    a: &hlx_core::Buffer,
    b: &hlx_core::Buffer,
    c: &hlx_core::Buffer,
) -> Result<(), CoreError> {
    let launch = Launch {
        name: "vector_add",
        shader: &VECTOR_ADD,
        specialization: &[],
        bindings: &[Binding::Read(a), Binding::Read(b), Binding::Write(c)],
        push: &(c.len() as u32).to_le_bytes(),
        groups: groups_1d(c.len().div_ceil(64)),
    };
    device.launch(launch, |bindings| {
        let ([a, b], [c]) = bindings.split();
        for (c, (a, b)) in c.iter_mut().zip(a.iter().zip(b)) {
            *c = a + b;
        }
    })
}

/// The shader.
#[allow(dead_code)] // Not every test binary launches with it.
pub fn shader() -> &'static Shader {
    &VECTOR_ADD
}
