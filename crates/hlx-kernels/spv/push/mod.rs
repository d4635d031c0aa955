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

pub mod activation;
pub mod attention;
pub mod batch_norm;
pub mod binary;
pub mod conv2d;
pub mod copy;
pub mod cross_entropy;
pub mod dropout;
pub mod elementwise;
pub mod embedding;
pub mod experts;
pub mod fill;
pub mod indexing;
pub mod integer;
pub mod interpolate;
pub mod layer_norm;
pub mod matmul;
pub mod mse;
pub mod optimizer;
pub mod pool;
pub mod recurrent;
pub mod reduce;
pub mod reduce_axes;
pub mod rms_norm;
pub mod rope;
pub mod scan;
pub mod select;
pub mod softmax;
pub mod sort;
pub mod transpose;
pub mod tree_digest;
pub mod unary;
