//! The macro that makes a kernel's module of its SPIR-V.

/// Makes a module from SPIR-V in `shaders/spv`: `SHADER` for launches, and the structs of its
/// push-constant blocks (`Push`, if the GLSL block is called so), made by vulkano-shaders.
///
/// `shader!(forward, "../../shaders/spv/layer_norm/forward.spv");` the path starts at the crate.
#[doc(hidden)] // Exported for the kernels of `hlx-proof`.
#[macro_export]
macro_rules! shader {
    ($name:ident, $path:tt) => {
        #[allow(
            missing_docs,
            dead_code,
            clippy::all,
            clippy::undocumented_unsafe_blocks
        )]
        pub(crate) mod $name {
            vulkano_shaders::shader! { bytes: $path }

            static BYTES: &[u8] = include_bytes!(concat!(env!("CARGO_MANIFEST_DIR"), "/", $path));
            // SAFETY: a module of `cargo xtask shaders`, which validates it; the launcher beside
            // this macro's call checks the sizes that bound its accesses.
            pub(crate) static SHADER: hlx_core::Shader =
                unsafe { hlx_core::Shader::new($path, BYTES) };
        }
    };
}
