//! `cargo xtask train`: builds `hlx` and runs the main job.

use crate::Outcome;
use crate::command;

pub const HELP: &str = "\
cargo xtask train [CONFIG.toml] [--device D] [OPTIONS OF hlx train]

Builds hlx in release mode and runs `hlx train`, by default on configs/ascii-specialist.toml:
a transformer that translates English into HLX's text notation. `--device` takes auto, cpu,
vulkan or vulkan:N; all other options go to `hlx train` unchanged, for instance
`--out DIR`, `--resume` or `--set train.max_steps=40`.";

pub fn run(args: &[String]) -> Outcome {
    let root = command::root();
    let (config, rest) = match args.split_first() {
        Some((first, rest)) if first.ends_with(".toml") => (first.clone(), rest),
        _ => (
            root.join("configs/ascii-specialist.toml")
                .display()
                .to_string(),
            args,
        ),
    };
    const PROGRAM: [&str; 3] = ["--release", "-p", "hlx-cli"];
    command::build("hlx", &PROGRAM[1..])?;
    let manifest = root.join("Cargo.toml");
    let mut hlx = command::cargo(&["run", "--quiet"]);
    hlx.args(PROGRAM)
        .arg("--manifest-path")
        .arg(manifest)
        .args(["--", "train", &config]);
    // Paths that the user wrote are relative to the user's current folder.
    if let Ok(here) = std::env::current_dir() {
        hlx.current_dir(here);
    }
    command::replace(hlx.args(rest))
}
