//! The two macros that every kernel module uses.

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

/// Compiles a function for AVX-512, for AVX2 with FMA, and for the target's baseline, and picks
/// at run time by [`hlx_core::cpu::simd_level`]. The bits are the same at every level.
///
/// Helpers called inside must be `#[inline(always)]`, or they are compiled for the baseline.
#[doc(hidden)] // Exported for the kernels of `hlx-proof`.
#[macro_export]
macro_rules! multiversion {
    (
        $(#[$meta:meta])*
        $vis:vis fn $name:ident($($arg:ident: $ty:ty),* $(,)?) $(-> $ret:ty)? $body:block
    ) => {
        $(#[$meta])*
        $vis fn $name($($arg: $ty),*) $(-> $ret)? {
            #[inline(always)]
            #[allow(clippy::too_many_arguments)]
            fn body($($arg: $ty),*) $(-> $ret)? $body

            #[cfg(target_arch = "x86_64")]
            {
                #[target_feature(enable = "avx2,fma,avx512f,avx512vl,avx512bw,avx512dq")]
                #[allow(clippy::too_many_arguments)]
                fn avx512($($arg: $ty),*) $(-> $ret)? {
                    body($($arg),*)
                }
                #[target_feature(enable = "avx2,fma")]
                #[allow(clippy::too_many_arguments)]
                fn avx2($($arg: $ty),*) $(-> $ret)? {
                    body($($arg),*)
                }
                match hlx_core::cpu::simd_level() {
                    // SAFETY: `simd_level` only names levels that this processor has.
                    hlx_core::cpu::SimdLevel::Avx512 => return unsafe { avx512($($arg),*) },
                    // SAFETY: as above.
                    hlx_core::cpu::SimdLevel::Avx2 => return unsafe { avx2($($arg),*) },
                    hlx_core::cpu::SimdLevel::Portable => {}
                }
            }
            body($($arg),*)
        }
    };
}
