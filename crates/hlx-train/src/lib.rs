//! hlx-train
