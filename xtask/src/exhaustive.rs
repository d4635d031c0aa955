//! `cargo xtask exhaustive`: builds the benchmark program and runs its comparison of every input.

use crate::{Outcome, bench};

pub const HELP: &str = "\
cargo xtask exhaustive [--device D] [--function NAME] [--stride N] [--pairs N]

Compares every one of the 2^32 inputs of each function of one argument between a device and the
CPU, bit for bit, and states the largest error in units of the last place against f64.

  --device D       auto (default), cpu, vulkan or vulkan:N
  --function NAME  one function, as often as wanted: recip, sqrt, rsqrt, exp, log, sigmoid, tanh,
                   erf, sin, cos, pos0, uniform, gelu, gelu_tanh, relu or silu
  --stride N       every Nth input only
  --pairs N        instead (or besides the functions named), N structured and random triples for
                   fma, mul, add, sub, div, max and the emulated fma; 1000000000 is the full run

Progress goes to stderr, the table to stdout. Exit status: 0 equal, 1 bits differ or it cannot run,
2 wrong arguments.";

pub fn run(args: &[String]) -> Outcome {
    let mut all = vec!["exhaustive".to_owned()];
    all.extend_from_slice(args);
    bench::run(&all)
}
