//! `cargo xtask`: what HLX needs done around its code, in plain Rust without dependencies.

mod activations;
mod arrows;
mod bench;
mod book;
mod cast;
mod command;
mod constants;
mod debian;
mod deep;
mod digests;
mod dist;
mod exhaustive;
mod families;
mod file_calls;
mod files;
mod floors;
mod image;
mod judges;
mod libm;
mod lint;
mod listing;
mod mpi;
mod noted_tables;
mod package;
mod packer;
mod ports;
mod products;
mod prove;
mod publisher;
mod python;
mod radv;
mod release;
mod setup;
mod sha256;
mod shaders;
mod specializations;
mod storm;
mod summary;
mod systems;
mod table;
mod test_choice;
mod test_programs;
mod tests_verb;
mod tidy;
mod train;
mod variants;
mod workflows;

use std::process::ExitCode;

/// What a verb gives back: the status the process ends with, or one line saying what is wrong.
pub type Outcome = Result<u8, String>;

const HELP: &str = "\
cargo xtask VERB [OPTIONS]

  train       build hlx and train the ASCII specialist on the best device found
  test        run all tests, Vulkan under validation; say which ran on which device
  python      build the Python package, install it into a fresh environment, run its tests there
  ports       build hlx for other systems, run it under emulation: the same bits; compile for AMD
  lint        formatting, clippy, docs, shader digests, SPIR-V rules, arrows, tidiness
  shaders     compile GLSL to the crates' spv folders with the pinned compiler
  package     pack the library crates and build a project outside from the packages
  release     archives, packages, wheels, inventories and sums of a version
  image       the container image from Debian's packages, tried in a namespace
  devices     write docs/devices.md from the reports in benches/devices
  bench       run the benchmarks
  prove       run one product 1,000 times, one model at every batch size: one result
  exhaustive  compare every input of every function between a device and the CPU
  debian      train ranks under the MPI libraries of another Debian: the same digests
  storm       kill short runs at random moments, resume them, compare their digests
  deep        Miri, ThreadSanitizer and libFuzzer: hours
  book        the pages as a book with search, rustdoc beside it
  cast        record the commands of the first chapter as the animated picture of README
  judges      run test suites that others wrote on the Python package
  ci          lint, then test: what .ci/run does

`cargo xtask VERB --help` says more.";

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    match dispatch(&args) {
        Ok(status) => ExitCode::from(status),
        Err(message) => {
            eprintln!("error: {message}");
            ExitCode::FAILURE
        }
    }
}

fn dispatch(args: &[String]) -> Outcome {
    let Some((verb, rest)) = args.split_first() else {
        println!("{HELP}");
        return Ok(2);
    };
    if matches!(verb.as_str(), "help" | "--help" | "-h") {
        println!("{HELP}");
        return Ok(0);
    }
    let Some((help, run)) = self::verb(verb) else {
        return Err(format!("no verb `{verb}`; `cargo xtask --help` lists them"));
    };
    // Arguments after `--` belong to the program that the verb runs.
    let own = rest.iter().take_while(|arg| *arg != "--");
    if own.clone().any(|arg| arg == "--help" || arg == "-h") {
        println!("{help}");
        return Ok(0);
    }
    run(rest)
}

/// What a verb runs, with its help.
type Verb = (&'static str, fn(&[String]) -> Outcome);

/// The verb of that name.
pub fn verb(name: &str) -> Option<Verb> {
    let verb: Verb = match name {
        "book" => (book::HELP, book::run),
        "cast" => (cast::HELP, cast::run),
        "train" => (train::HELP, train::run),
        "debian" => (debian::HELP, debian::run),
        "storm" => (storm::HELP, storm::run),
        "deep" => (deep::HELP, deep::run),
        "judges" => (judges::HELP, judges::run),
        "test" => (tests_verb::HELP, tests_verb::run),
        "ports" => (ports::HELP, ports::run),
        "lint" => (lint::HELP, lint::run),
        "shaders" => (shaders::HELP, shaders::run),
        "package" => (package::HELP, package::run),
        "release" => (release::HELP, release::run),
        "image" => (image::HELP, image::run),
        "devices" => (packer::DEVICES_HELP, packer::devices),
        "bench" => (bench::HELP, bench::run),
        "prove" => (prove::HELP, prove::run),
        "python" => (python::HELP, python::run),
        "exhaustive" => (exhaustive::HELP, exhaustive::run),
        "ci" => (CI_HELP, ci),
        _ => return None,
    };
    Some(verb)
}

const CI_HELP: &str = "\
cargo xtask ci [OPTIONS OF cargo xtask test]

Runs `cargo xtask lint`, then `cargo xtask test`.";

fn ci(args: &[String]) -> Outcome {
    match lint::run(&[])? {
        0 => tests_verb::run(args),
        status => Ok(status),
    }
}

/// The error for an argument that a verb does not know.
pub fn unknown_argument(verb: &str, argument: &str) -> String {
    format!("{verb}: unknown argument `{argument}`; `cargo xtask {verb} --help` lists them")
}
