//! Miri and ThreadSanitizer over what they can run, with overflow checks and without.

use std::path::Path;
use std::process::Command;
use std::time::Instant;

use crate::summary::Results;
use crate::{Outcome, command, files, test_programs, tests_verb};

/// What checks a part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Checker {
    /// Undefined behaviour, by interpretation.
    Miri,
    /// Data races, by instrumentation.
    ThreadSanitizer,
}

/// Tests that one checker runs.
struct Suite {
    checker: Checker,
    about: &'static str,
    /// What selects the tests for `cargo test`, and what follows `--`.
    arguments: &'static [&'static str],
}

/// Miri runs some hundred times slower than the processor and has no Vulkan, so it gets the tests
/// of the CPU device, without those that move megabytes or run hundreds of jobs.
const SUITES: [Suite; 4] = [
    Suite {
        checker: Checker::Miri,
        about: "memory plans, sizes, launches, digests and schedules",
        arguments: &[
            "-p",
            "hlx-core",
            "--lib",
            "--",
            "memory",
            "sizes",
            "launch",
            "digest",
            "tuning",
            "hazards",
            "schedule",
            // Its megabyte of SHA-256 takes Miri more than twenty minutes.
            "--skip",
            "values_may_come_in_parts",
        ],
    },
    Suite {
        checker: Checker::Miri,
        about: "the CPU stream, its graphs, who owns their memory, and hostile sizes",
        arguments: &[
            "-p",
            "hlx-core",
            "--test",
            "ownership",
            "--test",
            "streams",
            "--test",
            "sizes",
            "--",
            "--skip",
            "transfers_larger",
            "--skip",
            "flush_subnormals",
            "--skip",
            "jobs_of_a_users_thread_pool",
            "--skip",
            "dependent_launches",
            "--skip",
            "more_memory",
        ],
    },
    Suite {
        checker: Checker::Miri,
        about: "layouts, and a kernel in small sizes",
        arguments: &[
            "-p",
            "hlx-kernels",
            "--lib",
            "--",
            "transpose::tests",
            "layout::tests",
        ],
    },
    Suite {
        checker: Checker::ThreadSanitizer,
        about: "the streams' locks, devices shared by threads",
        arguments: &["-p", "hlx-core", "--test", "ownership", "--test", "streams"],
    },
];

/// Whether numbers that wrap end a test, as in a developer's build, or continue, as in users' builds: a check
/// that hides what unsafe code does with a wrapped size would hide the fault, too.
const OVERFLOW_CHECKS: [bool; 2] = [true, false];

pub fn run(checkers: &[Checker]) -> Outcome {
    for tool in ["miri", "rust-src"] {
        if !has_component(tool) {
            return Err(format!(
                "deep: needs {tool}: rustup component add miri rust-src --toolchain nightly"
            ));
        }
    }
    let mut results = Results::default();
    let mut lines = Vec::new();
    let mut worst = 0;
    let suites = SUITES
        .iter()
        .filter(|suite| checkers.contains(&suite.checker));
    let suites = suites.flat_map(|suite| OVERFLOW_CHECKS.map(|is_checked| (suite, is_checked)));
    for (number, (suite, is_checked)) in (1..).zip(suites) {
        let arithmetic = match is_checked {
            true => "overflow checks",
            false => "users' build",
        };
        eprintln!(
            "xtask: {:?}, {arithmetic}: {} ...",
            suite.checker, suite.about
        );
        let start = Instant::now();
        let before = results.passed();
        let log = tests_verb::output_file(&format!("deep-{number}.log"))?;
        let messages =
            std::fs::File::create(&log).map_err(|error| format!("{}: {error}", log.display()))?;
        let status = test_programs::run(suite.command(is_checked).stderr(messages), &mut results)?;
        if status != 0 {
            worst = status;
            show_end(&log)?;
        }
        lines.push(format!(
            "  {:15} {arithmetic:15} {:4} tests {:6.0} s  {}  {}",
            format!("{:?}", suite.checker),
            results.passed() - before,
            start.elapsed().as_secs_f64(),
            if status == 0 { "clean " } else { "failed" },
            suite.about
        ));
    }
    println!("\nDeep checks (times include the build)");
    lines.iter().for_each(|line| println!("{line}"));
    println!("Left out");
    println!("  Vulkan: Miri cannot load it, and its drivers are not instrumented");
    println!("{}", results.last_line());
    Ok(worst)
}

/// Prints the end of what a checker wrote; Miri warns at length of every file it opens, so that
/// a clean suite's messages stay in their file.
fn show_end(log: &Path) -> Result<(), String> {
    const LINES: usize = 80;
    let text = String::from_utf8_lossy(&files::bytes(log)?).into_owned();
    let lines: Vec<&str> = text.lines().collect();
    let from = lines.len().saturating_sub(LINES);
    eprintln!("{}", lines[from..].join("\n"));
    eprintln!("xtask: all messages are in {}", log.display());
    Ok(())
}

fn has_component(name: &str) -> bool {
    let mut list = Command::new("rustup");
    list.args(["component", "list", "--toolchain", "nightly", "--installed"]);
    command::capture("rustup", &mut list).is_ok_and(|installed| installed.contains(name))
}

impl Suite {
    fn command(&self, is_checked: bool) -> Command {
        let mut tests = nightly_cargo();
        tests.env("HLX_TEST_DEVICES", "cpu").env("HLX_THREADS", "2");
        if !is_checked {
            tests
                .env("CARGO_PROFILE_DEV_OVERFLOW_CHECKS", "false")
                .env("CARGO_PROFILE_TEST_OVERFLOW_CHECKS", "false")
                .env("CARGO_PROFILE_DEV_DEBUG_ASSERTIONS", "false")
                .env("CARGO_PROFILE_TEST_DEBUG_ASSERTIONS", "false");
        }
        match self.checker {
            Checker::Miri => {
                // crossbeam-epoch, below rayon, follows the rules of Tree Borrows alone, turns
                // integers into pointers, and leaves its threads' memory to the end.
                let flags = "-Zmiri-tree-borrows -Zmiri-permissive-provenance \
                             -Zmiri-ignore-leaks -Zmiri-disable-isolation";
                tests.env("MIRIFLAGS", flags).args(["miri", "test"]);
                // Printing a backtrace would take Miri a minute.
                tests.env("RUST_BACKTRACE", "0");
                // Else the CPU device reads its budget from /proc at each allocation.
                tests.env("HLX_MEMORY_LIMIT", (1_u64 << 30).to_string());
            }
            Checker::ThreadSanitizer => {
                // The standard library is instrumented as well, or its locks would be unknown.
                tests
                    .env("RUSTFLAGS", "-Zsanitizer=thread")
                    .env("RUSTDOCFLAGS", "-Zsanitizer=thread")
                    .args(["test", "-Zbuild-std", "--target", host()])
                    .args(["--target-dir", "target/thread-sanitizer"]);
            }
        }
        tests.args(self.arguments);
        tests
    }
}

/// A `cargo` of rustup's nightly: the one that runs us is of the stable toolchain.
pub fn nightly_cargo() -> Command {
    let mut cargo = Command::new("cargo");
    cargo.current_dir(command::root()).arg("+nightly");
    for variable in [
        "CARGO",
        "CARGO_MANIFEST_DIR",
        "CARGO_PKG_NAME",
        "RUSTUP_TOOLCHAIN",
    ] {
        cargo.env_remove(variable);
    }
    cargo
}

/// The target that xtask was built for.
pub fn host() -> &'static str {
    match (std::env::consts::ARCH, std::env::consts::OS) {
        ("aarch64", "linux") => "aarch64-unknown-linux-gnu",
        ("aarch64", "macos") => "aarch64-apple-darwin",
        _ => "x86_64-unknown-linux-gnu",
    }
}

#[cfg(test)]
mod tests {
    use super::{Checker, SUITES};

    #[test]
    fn every_part_runs_on_the_cpu_device_alone() {
        for suite in &SUITES {
            let command = suite.command(false);
            let devices = command
                .get_envs()
                .find(|(name, _)| *name == "HLX_TEST_DEVICES");
            let value = devices.and_then(|(_, value)| value).expect("set");
            assert_eq!(value, "cpu", "{}", suite.about);
            let arguments: Vec<_> = command.get_args().collect();
            assert_eq!(arguments[0], "+nightly");
            let is_miri = arguments.iter().any(|argument| *argument == "miri");
            assert_eq!(is_miri, suite.checker == Checker::Miri);
        }
    }
}
