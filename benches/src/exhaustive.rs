//! Every input of every function, on a device and on the CPU: the table of docs/numerics.md.

use std::io::{IsTerminal as _, Write as _};
use std::process::ExitCode;

use crate::say;
use anyhow::{Context as _, Result};
use hlx_core::Device;
use hlx_proof::exhaustive::{Comparison, FUNCTIONS, Function, PairRun, Progress, Run};

/// Inputs of a launch: 64 MiB of results.
const CHUNK: usize = 1 << 24;
/// Triples of a launch: the host makes them, and holds two launches of seven results each.
const PAIR_CHUNK: usize = 1 << 22;

/// What to compare.
#[derive(clap::Args)]
pub struct Arguments {
    /// auto, cpu, vulkan or vulkan:N; the environment variable HLX_DEVICE wins.
    #[arg(long, value_name = "DEVICE", default_value = "auto")]
    device: String,
    /// One function, as often as wanted; all of them if left out.
    #[arg(long = "function", value_name = "NAME", value_parser = function_named)]
    functions: Vec<&'static Function>,
    /// Every Nth input only.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..))]
    stride: u32,
    /// Instead (or besides the functions named), this many triples for the operations of two and
    /// three arguments.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pairs: Option<u64>,
}

fn function_named(name: &str) -> Result<&'static Function, String> {
    let found = FUNCTIONS.iter().find(|function| function.name == name);
    found.ok_or_else(|| {
        let names = FUNCTIONS.map(|function| function.name).join(", ");
        format!("no such function, expected one of {names}")
    })
}

/// Compares, and prints the table; fails if any word differs.
///
/// # Errors
/// What the devices report.
pub fn run(arguments: &Arguments) -> Result<ExitCode> {
    let device = Device::open_from_env(&arguments.device)?;
    let cpu = Device::cpu()?;
    let info = device.info();
    say!("device    {info}, {}", info.driver);
    say!("compared  with {}, {}", cpu.info(), cpu.info().driver);
    if device.is_cpu() {
        say!("          the bits with themselves; only the errors say something");
    }
    say!(
        "\n{:<10} {:>13}  {:<16} {:>8}  at",
        "function",
        "inputs",
        "bits",
        "ulp"
    );
    let all: Vec<&Function> = FUNCTIONS.iter().collect();
    let functions = match (&arguments.functions[..], arguments.pairs) {
        ([], None) => &all[..],
        (named, _) => named,
    };
    let mut differing = 0;
    for function in functions {
        let run = Run {
            stride: arguments.stride,
            chunk: CHUNK,
        };
        let found = run.check(&device, &cpu, function, &mut |progress| {
            show(function.name, progress);
        });
        differing += print(function.name, 1, &found.context(function.name)?);
    }
    if let Some(triples) = arguments.pairs {
        let run = PairRun {
            triples,
            chunk: PAIR_CHUNK,
        };
        let found = run.check(&device, &cpu, &mut |progress| show("pairs", progress));
        for (name, found) in found.context("pairs")? {
            differing += print(name, 3, &found);
        }
    }
    Ok(if differing == 0 {
        ExitCode::SUCCESS
    } else {
        say!("\n{differing} results differ");
        ExitCode::FAILURE
    })
}

/// Shows how far a run is, where somebody looks.
fn show(name: &str, progress: Progress) {
    let mut stderr = std::io::stderr();
    if !stderr.is_terminal() {
        return;
    }
    let Progress {
        done,
        total,
        elapsed,
    } = progress;
    let rate = done as f64 / elapsed.as_secs_f64().max(1e-9);
    let line = format!(
        "\r{name}: {:.1}%, {:.1} million/s, {:.0} s left   ",
        100.0 * done as f64 / total as f64,
        rate * 1e-6,
        (total - done) as f64 / rate
    );
    // A progress line that cannot be shown harms nobody.
    let _ = stderr.write_all(line.as_bytes());
    if done == total {
        let _ = stderr.write_all(b"\r\x1b[K");
    }
}

/// Prints a row, and returns how many words differ.
fn print(name: &str, arguments: usize, found: &Comparison) -> u64 {
    let bits = match found.differing {
        0 => "equal".to_owned(),
        n => format!("{n} differ"),
    };
    let (ulp, at) = match found.worst {
        Some(worst) => (
            format!("{:.4}", worst.ulp),
            format!("{:#010x} ({:e})", worst.input, f32::from_bits(worst.input)),
        ),
        None => ("-".to_owned(), String::new()),
    };
    let row = format!("{name:<10} {:>13}  {bits:<16} {ulp:>8}  {at}", found.inputs);
    say!("{}", row.trim_end());
    if let Some(first) = found.first {
        let inputs = first.inputs[..arguments].iter();
        let inputs: Vec<String> = inputs.map(|word| format!("{word:#010x}")).collect();
        say!(
            "           first {name}({}): {:#010x}, the CPU has {:#010x}",
            inputs.join(", "),
            first.found,
            first.expected
        );
    }
    found.differing
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser as _;

    #[derive(clap::Parser)]
    struct Program {
        #[command(flatten)]
        arguments: Arguments,
    }

    #[test]
    fn a_function_that_is_none_is_named_with_those_that_are() {
        let parsed = Program::try_parse_from(["exhaustive", "--function", "gamma"]);
        let error = parsed.err().map(|error| error.to_string());
        let error = error.unwrap_or_default();
        assert!(
            error.contains("gamma") && error.contains("sigmoid"),
            "{error}"
        );
    }

    #[test]
    fn a_run_with_a_stride_finds_equal_bits() -> Result<()> {
        let line = "exhaustive --device cpu --function exp --stride 9999991 --pairs 50000";
        let program = Program::try_parse_from(line.split(' '))?;
        assert_eq!(run(&program.arguments)?, ExitCode::SUCCESS);
        Ok(())
    }
}
