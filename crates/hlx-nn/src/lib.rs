//! hlx-nn
