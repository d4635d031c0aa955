//! The macro that makes a kernel's module of its SPIR-V.

/// Makes a module of a shader in the crate's `spv` folder: `SHADER` for launches and, if it has
/// push constants, their block as the struct `Push`. `cargo xtask shaders` writes both files.
///
/// `shader!(forward, "layer_norm/forward");`
#[doc(hidden)] // Exported for the kernels of `hlx-proof`.
#[macro_export]
macro_rules! shader {
    ($name:ident, $path:tt) => {
        // The lint does not find the reason of the block below where the macro is expanded.
        #[allow(missing_docs, dead_code, clippy::undocumented_unsafe_blocks)]
        pub(crate) mod $name {
            include!(concat!(env!("CARGO_MANIFEST_DIR"), "/spv/", $path, ".rs"));

            static BYTES: &[u8] =
                include_bytes!(concat!(env!("CARGO_MANIFEST_DIR"), "/spv/", $path, ".spv"));
            // SAFETY: a module of `cargo xtask shaders`, which validates it; the launcher beside
            // this macro's call checks the sizes that bound its accesses.
            pub(crate) static SHADER: hlx_core::Shader =
                unsafe { hlx_core::Shader::new($path, BYTES) };
        }
    };
}
