//! The macro that makes a kernel's module of its SPIR-V.

/// Makes a module of a shader in the crate's `spv` folder, named by family and module: `SHADER` for
/// launches, and its push constants as the struct `Push`. `cargo xtask shaders`
/// writes the SPIR-V, and the structs to `spv/push.rs`, which is the crate's module `push`.
///
/// `shader!(forward, layer_norm::forward);`, or for several `shader!(layer_norm::{forward, forward_held as held});`.
#[doc(hidden)] // Exported for the kernels of `hlx-proof`.
#[allow(clippy::crate_in_macro_def)] // The push constants are those of the crate that calls.
#[macro_export]
macro_rules! shader {
    ($family:ident::{$($module:ident $(as $name:ident)?),+ $(,)?}) => {
        $($crate::shader!(@each $family $module $($name)?);)+
    };
    (@each $family:ident $module:ident) => {
        $crate::shader!($module, $family::$module);
    };
    (@each $family:ident $module:ident $name:ident) => {
        $crate::shader!($name, $family::$module);
    };
    ($name:ident, $family:ident::$module:ident) => {
        // The lint does not find the reason of the block below where the macro is expanded.
        #[allow(
            missing_docs,
            dead_code,
            unused_imports,
            clippy::undocumented_unsafe_blocks
        )]
        pub(crate) mod $name {
            pub use crate::push::$family::$module as Push;

            static BYTES: &[u8] = include_bytes!(concat!(
                env!("CARGO_MANIFEST_DIR"),
                "/spv/",
                stringify!($family),
                "/",
                stringify!($module),
                ".spv"
            ));
            // SAFETY: a module of `cargo xtask shaders`, which validates it; the launcher beside
            // this macro's call checks the sizes that bound its accesses.
            pub(crate) static SHADER: hlx_core::Shader = unsafe {
                hlx_core::Shader::new(
                    concat!(stringify!($family), "/", stringify!($module)),
                    BYTES,
                )
            };
        }
    };
}

/// The push constants of a shader, from numbers of any size: `push!(forward => rows, eps, adds: true)`. A GPU
/// refuses a number that 32 bits don't hold.
macro_rules! push {
    ($shader:ident => $($field:ident $(: $value:expr)?),* $(,)?) => {{
        let mut misfit = None;
        let block = $shader::Push {
            $($field: {
                let (field, fits) = $crate::kernel::Field::field(push!(@value $field $($value)?));
                if !fits {
                    misfit = Some(stringify!($field));
                }
                field
            }),*
        };
        $crate::kernel::PushConstants::with_misfit(&block, misfit)
    }};
    (@value $field:ident) => { $field };
    (@value $field:ident $value:expr) => { $value };
}

/// The block of push constants itself, of numbers that were checked: a CPU twin reads it too.
macro_rules! block {
    ($block:ident => $($field:ident $(: $value:expr)?),*) => {
        $block { $($field: $crate::kernel::Field::field(push!(@value $field $($value)?)).0),* }
    };
}

/// Specialization constants from a number on, of flags and of numbers that 32 bits hold: `constants!(0: is_wide, columns)`.
macro_rules! constants {
    ($first:literal: $($value:expr),+) => {
        $crate::kernel::numbered($first, [$($crate::kernel::Field::<u32>::field($value).0),+])
    };
}

/// [`check_that`](crate::error::check_that) with a format: `check_that!(name, rows > 0 => "{rows} rows")?`.
macro_rules! check_that {
    ($operation:expr, $holds:expr => $($reason:tt)+) => {
        $crate::error::check_that($operation, $holds, || format!($($reason)+))
    };
}
