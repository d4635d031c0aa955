//! The push constants of kernels, one file per family, by `cargo xtask shaders` from the modules.
#![cfg_attr(rustfmt, rustfmt_skip)]
#![allow(missing_docs, dead_code, unused_imports)]

pub mod arith;
