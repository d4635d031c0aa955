//! `cargo xtask exhaustive`: builds the program that compares every input of every function, and
//! runs it.

use crate::Outcome;
use crate::command::{self, step};

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

Progress goes to stderr, the table to stdout. Exit status: 0 equal, 1 bits differ, 2 cannot run.";

pub fn run(args: &[String]) -> Outcome {
    const PROGRAM: [&str; 5] = ["--release", "-p", "hlx-kernels", "--example", "exhaustive"];
    step("building exhaustive", || {
        let mut build = command::quiet_cargo(&["build"]);
        command::succeed("the build", build.args(PROGRAM))
    })?;
    let mut exhaustive = command::cargo(&["run", "--quiet"]);
    command::status(exhaustive.args(PROGRAM).arg("--").args(args))
}
