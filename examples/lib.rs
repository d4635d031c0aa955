//! The examples are beside this file, in order: `cargo run --release --example 01_tensors`.
