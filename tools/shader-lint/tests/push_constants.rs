//! The push-constant structs that `cargo xtask shaders` writes, against those of vulkano-shaders.
//!
//! Kernels use the former: vulkano-shaders needs shaderc at build time, a C++ library that HLX
//! never calls, and a second vulkano for the compiler. It remains the oracle of the layouts.

use std::mem::offset_of;

#[path = "../../../crates/hlx-kernels/spv/push.rs"]
mod written;

/// Compares sizes and the offsets of these members.
macro_rules! same_layout {
    ($test:ident, $written:path, $module:literal, $($member:ident),+) => {
        #[test]
        fn $test() {
            #[allow(dead_code, missing_docs, clippy::all, clippy::undocumented_unsafe_blocks)]
            mod reflected {
                vulkano_shaders::shader! { bytes: $module }
            }
            use $written as Written;
            assert_eq!(size_of::<Written>(), size_of::<reflected::Push>());
            $(assert_eq!(
                offset_of!(Written, $member),
                offset_of!(reflected::Push, $member),
                stringify!($member)
            );)+
        }
    };
}

same_layout!(
    scalars,
    written::layer_norm::forward,
    "../../crates/hlx-kernels/spv/layer_norm/forward.spv",
    rows,
    cols,
    eps
);
same_layout!(
    an_array,
    written::tree_digest::pairs,
    "../../crates/hlx-kernels/spv/tree_digest/pairs.spv",
    state,
    n,
    first,
    blocks
);
same_layout!(
    the_largest,
    written::matmul::tile_64x64,
    "../../crates/hlx-kernels/spv/matmul/tile_64x64.spv",
    m,
    n,
    k,
    stride_a,
    stride_b,
    stride_c,
    batch_first,
    scalar
);
