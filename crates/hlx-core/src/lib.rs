//! hlx-core
