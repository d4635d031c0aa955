//! hlx-kernels

pub mod lanes;
