//! `cargo xtask ports`: HLX on other systems, under emulation, with the bits of this one.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::Outcome;
use crate::command::{self, step};
use crate::radv;
use crate::setup::{self, Consent};

pub const HELP: &str = "\
cargo xtask ports [--only aarch64|windows|macos|radv] [--full] [--mesa25] [--table] [--yes | --no-install]

Trains two steps of the ASCII specialist, of 4 samples each, on this machine's CPU. Then builds `hlx` for AArch64 Linux
and for Windows, and under qemu-user and Wine runs its probe (`hlx doctor`), trains the golden runs,
and recomputes the steps: every digest must be equal. Type-checks `hlx` for macOS. Compiles every module
with Mesa's RADV for AMD's chips, which need not be here, and searches the machine code for what HLX's
arithmetic forbids: a third of the modules for each of three chips, with the first specialization
constants of each in shaders/specializations.txt. What a missing tool leaves out is said in the last
lines; with CI=true it is an error.

  --only P       that system, or RADV, alone
  --full         the specialist's first 12 steps, of 16 samples: many minutes under qemu-user; every module
                 with all constants of the list, for every chip
  --mesa25       RADV of Debian 13's Mesa 25 too, for four chips, in a Debian made by mmdebstrap (needs root,
                 the network and 350 MB)
  --table        every module for every chip; writes the table of docs/amd.md anew
  --yes          install missing packages without asking; CI=true does the same
  --no-install   install nothing";

/// A system to build for.
struct Port {
    name: &'static str,
    target: &'static str,
    check: fn(&Port, &Options) -> Result<Vec<String>, String>,
}

const PORTS: [Port; 4] = [
    Port {
        name: "radv",
        target: "",
        check: |_, options| radv::check(options.radv()),
    },
    Port {
        name: "aarch64",
        target: "aarch64-unknown-linux-gnu",
        check: |port, _| aarch64(port),
    },
    Port {
        name: "windows",
        target: "x86_64-pc-windows-gnu",
        check: |port, _| windows(port),
    },
    Port {
        name: "macos",
        target: "aarch64-apple-darwin",
        check: |port, _| macos(port),
    },
];

pub fn run(args: &[String]) -> Outcome {
    let ci = std::env::var("CI").is_ok_and(|value| value == "true" || value == "1");
    let options = parse(args, ci)?;
    setup::prepare(options.consent, &setup::PORTS)?;
    let only = options.only.as_deref();
    let chosen = |port: &&Port| only.is_none_or(|name| name == port.name);
    let recomputes = |port: &Port| ["aarch64", "windows"].contains(&port.name);
    if PORTS.iter().filter(chosen).any(recomputes) {
        step("training on this machine", || train_here(options.full))?;
    }
    let (mut lines, mut left_out) = (Vec::new(), 0);
    for port in PORTS.iter().filter(chosen) {
        let missing = step(port.name, || (port.check)(port, &options))?;
        left_out += missing.len();
        if missing.is_empty() {
            lines.push(format!("{}: passed", port.name));
        } else {
            lines.push(format!("{}: left out: {}", port.name, missing.join("; ")));
        }
    }
    println!("{}", lines.join("\n"));
    if ci && left_out > 0 {
        return Err("ports: with CI=true nothing may be left out".to_string());
    }
    Ok(0)
}

#[derive(Debug, PartialEq)]
struct Options {
    only: Option<String>,
    full: bool,
    mesa25: bool,
    table: bool,
    consent: Consent,
}

impl Options {
    fn radv(&self) -> radv::Extent {
        radv::Extent {
            full: self.full,
            newer: self.mesa25,
            table: self.table,
        }
    }
}

fn parse(args: &[String], ci: bool) -> Result<Options, String> {
    let mut options = Options {
        only: None,
        full: false,
        mesa25: false,
        table: false,
        consent: if ci { Consent::Given } else { Consent::Unknown },
    };
    let mut args = args.iter();
    while let Some(arg) = args.next() {
        match arg.as_str() {
            "--full" => options.full = true,
            "--mesa25" => options.mesa25 = true,
            "--table" => options.table = true,
            "--yes" => options.consent = Consent::Given,
            "--no-install" => options.consent = Consent::Refused,
            "--only" => {
                let name = args
                    .next()
                    .filter(|name| PORTS.iter().any(|p| p.name == *name));
                let name = name.ok_or("ports: --only takes aarch64, windows, macos or radv")?;
                options.only = Some(name.clone());
            }
            _ => return Err(crate::unknown_argument("ports", arg)),
        }
    }
    Ok(options)
}

/// A folder or file below target/ports.
fn output(name: &str) -> PathBuf {
    command::root().join("target").join("ports").join(name)
}

/// Trains what the ports recompute.
fn train_here(full: bool) -> Result<(), String> {
    let args = ["build", "--release", "-p", "hlx-cli"];
    command::succeed("cargo build", &mut command::quiet_cargo(&args))?;
    let run = output("run");
    if run.exists() {
        std::fs::remove_dir_all(&run).map_err(|error| format!("{}: {error}", run.display()))?;
    }
    let mut train = Command::new(command::root().join("target/release/hlx"));
    train.args(["train", "configs/ascii-specialist.toml", "--device", "cpu"]);
    let sizes: &[&str] = if full {
        &["train.max_steps=12"]
    } else {
        &[
            "train.max_steps=2",
            "train.batch_size=4",
            "train.log_every=1",
        ]
    };
    for size in sizes {
        train.args(["--set", size]);
    }
    train.arg("--out").arg(&run);
    command::capture("hlx train", train.current_dir(command::root())).map(|_| ())
}

fn aarch64(port: &Port) -> Result<Vec<String>, String> {
    let tools = ["aarch64-linux-gnu-gcc", "qemu-aarch64"];
    let missing = missing(port, &tools)?;
    if !missing.is_empty() {
        return Ok(missing);
    }
    let linker = (
        "CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_LINKER",
        "aarch64-linux-gnu-gcc",
    );
    let program = build(port, "hlx", &[linker])?;
    prove(|| {
        let mut command = Command::new("qemu-aarch64");
        command.args(["-L", "/usr/aarch64-linux-gnu"]).arg(&program);
        command
    })?;
    Ok(Vec::new())
}

fn windows(port: &Port) -> Result<Vec<String>, String> {
    let mut missing = missing(port, &["x86_64-w64-mingw32-gcc"])?;
    let wine = setup::wine();
    if wine.is_none() {
        missing.push("Wine is not installed".to_string());
    }
    let Some(wine) = wine.filter(|_| missing.is_empty()) else {
        return Ok(missing);
    };
    let program = build(port, "hlx.exe", &[])?;
    // Debian's Wine lacks the library that Rust's random numbers for hash tables come from.
    let mut library = Command::new("x86_64-w64-mingw32-gcc");
    library.args(["-O1", "-shared", "-o"]);
    library.arg(program.with_file_name("bcryptprimitives.dll"));
    library.arg(command::root().join("tools/process-prng/process_prng.c"));
    command::capture("process_prng.c", library.arg("-ladvapi32"))?;
    prove(|| {
        let mut command = Command::new(wine);
        command.arg(&program);
        command
            .env("WINEDEBUG", "-all")
            .env("WINEPREFIX", output("wine"));
        command
    })?;
    Ok(Vec::new())
}

fn macos(port: &Port) -> Result<Vec<String>, String> {
    let missing = missing(port, &[])?;
    if missing.is_empty() {
        let args = [
            "check",
            "--release",
            "-p",
            "hlx-cli",
            "--target",
            port.target,
        ];
        command::succeed("cargo check", &mut command::quiet_cargo(&args))?;
    }
    Ok(missing)
}

/// What is not here of the tools and of Rust's standard library for the target; the latter is
/// added where rustup is.
fn missing(port: &Port, tools: &[&str]) -> Result<Vec<String>, String> {
    let absent = tools.iter().filter(|tool| !command::on_path(tool));
    let mut missing: Vec<String> = absent
        .map(|tool| format!("no {tool} on the path"))
        .collect();
    if missing.is_empty() {
        let mut add = Command::new("rustup");
        add.args(["target", "add", port.target])
            .current_dir(command::root());
        if !command::on_path("rustup") || command::capture("rustup", &mut add).is_err() {
            missing.push(format!("rustup cannot add {}", port.target));
        }
    }
    Ok(missing)
}

/// Builds the program for a port.
fn build(port: &Port, file: &str, env: &[(&str, &str)]) -> Result<PathBuf, String> {
    let args = [
        "build",
        "--release",
        "-p",
        "hlx-cli",
        "--target",
        port.target,
    ];
    let mut cargo = command::quiet_cargo(&args);
    cargo.envs(env.iter().copied());
    step(&format!("building for {}", port.target), || {
        command::succeed("cargo build", &mut cargo)
    })?;
    let program = command::root()
        .join("target")
        .join(port.target)
        .join("release")
        .join(file);
    no_fmaf(&program)?;
    Ok(program)
}

/// Kernels must not have been compiled to calls of the platform's multiply-add.
fn no_fmaf(program: &Path) -> Result<(), String> {
    let symbols = command::capture("nm", Command::new("nm").arg(program))?;
    let called = symbols
        .lines()
        .filter_map(|line| line.split_whitespace().last());
    let mut fmaf = called.filter(|name| ["fmaf", "fmaf32", "__imp_fmaf"].contains(name));
    match fmaf.next() {
        None => Ok(()),
        Some(name) => Err(format!(
            "{}: calls the platform's {name}",
            program.display()
        )),
    }
}

/// Runs the probe, the golden runs and the steps with the program of a port.
fn prove(program: impl Fn() -> Command) -> Result<(), String> {
    let run = output("run");
    let run = run.to_string_lossy();
    let corpus = "data/ascii-specialist.jsonl";
    let steps: [(&str, Vec<&str>); 3] = [
        ("hlx doctor", vec!["doctor"]),
        (
            "hlx verify --golden",
            vec!["verify", "--golden", "--device", "cpu"],
        ),
        (
            "hlx verify",
            vec!["verify", &run, "--data", corpus, "--device", "cpu"],
        ),
    ];
    for (name, args) in steps {
        let text = step(name, || {
            let mut command = program();
            command::capture(name, command.args(&args).current_dir(command::root()))
        })?;
        print!("{text}");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::{Options, parse};
    use crate::setup::Consent;

    #[test]
    fn the_arguments_are_read() {
        let read = |args: &[&str], ci| {
            let args: Vec<String> = args.iter().map(ToString::to_string).collect();
            parse(&args, ci)
        };
        let options = |only: Option<&str>, full, consent| {
            let only = only.map(str::to_string);
            Ok(Options {
                only,
                full,
                mesa25: false,
                table: false,
                consent,
            })
        };
        assert_eq!(read(&[], false), options(None, false, Consent::Unknown));
        assert_eq!(read(&["--full"], true), options(None, true, Consent::Given));
        assert_eq!(
            read(&["--only", "windows", "--no-install"], true),
            options(Some("windows"), false, Consent::Refused)
        );
        let radv = read(&["--only", "radv", "--mesa25", "--table"], false).map(|read| read.radv());
        assert!(radv.is_ok_and(|radv| radv.newer && radv.table && !radv.full));
        assert!(read(&["--only", "amiga"], false).is_err());
        assert!(read(&["--fast"], false).is_err());
    }
}
