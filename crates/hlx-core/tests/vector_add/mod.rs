//! The vector addition that the tests of hlx-core launch.

use hlx_core::{Binding, Context, CoreError, Launch, Shader, groups_1d};

static VECTOR_ADD: Shader = Shader {
    name: "examples/vector_add",
    bytes: include_bytes!("../../../../shaders/spv/examples/vector_add.spv"),
};

/// `c = a + b` through the shader or its twin.
pub fn add(
    ctx: &Context,
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
    ctx.launch(launch, |bindings| {
        let ([a, b], [c]) = bindings.split();
        for (c, (a, b)) in c.iter_mut().zip(a.iter().zip(b)) {
            *c = a + b;
        }
    })
}
