//! The push constants of kernels, a module per family, by `cargo xtask shaders` from the modules.
#![allow(missing_docs, dead_code, unused_imports, non_camel_case_types)]

/// Makes a struct of each block, under the names of all modules that have it.
macro_rules! blocks {
    ($(mod $family:ident { $($first:ident $(, $other:ident)* { $($member:ident: $kind:ty),* $(,)? })* })*) => {$(
        pub mod $family {$(
            #[repr(C)]
            #[derive(Clone, Copy, Debug, bytemuck::Pod, bytemuck::Zeroable)]
            pub struct $first {
                $(pub $member: $kind),*
            }
            $(pub use self::$first as $other;)*
        )*}
    )*};
}

blocks! {
mod arith {
    every, every_exp_log, every_trigonometric { count: u32, first: u32, stride: u32 }
    random { count: u32, key_0: u32, key_1: u32 }
    sweep { count: u32, op: u32 }
}
}
