//! The push constants of kernels, one file per family, by `cargo xtask shaders` from the modules.
#![allow(missing_docs, dead_code, unused_imports, non_camel_case_types)]

/// Makes a struct of each block, under the names of all modules that have it.
macro_rules! blocks {
    ($($first:ident $(, $other:ident)* { $($member:ident: $kind:ty),* $(,)? })*) => {$(
        #[repr(C)]
        #[derive(Clone, Copy, Debug, bytemuck::Pod, bytemuck::Zeroable)]
        pub struct $first {
            $(pub $member: $kind),*
        }
        $(pub use self::$first as $other;)*
    )*};
}

pub mod arith;
