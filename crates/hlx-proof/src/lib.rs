//! What shows that HLX's kernels follow the specification of its arithmetic, on the device at hand.
//!
//! - [`exhaustive`]: every input of every function, a device against the CPU, bit for bit;
//! - [`peak`]: the multiply-adds and the bytes per second that kernels are measured against;
//! - the tests of `order`: the tree that each reduction sums in, found by probing it from outside.
//!
//! This crate knows kernels and devices. It knows neither the tape, models nor files.

#[cfg(test)]
mod arith_check;
#[cfg(test)]
mod order;

#[path = "../spv/push.rs"]
mod push;

pub mod exhaustive;
pub mod peak;
