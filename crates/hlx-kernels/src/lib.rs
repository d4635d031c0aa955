//! hlx-kernels
