//! `cargo xtask bench`: runs the benchmark targets of the workspace.

use crate::Outcome;
use crate::command::{self, step};
use crate::files;

pub const HELP: &str = "\
cargo xtask bench [-- ARGUMENTS OF CRITERION]

Runs every benchmark target of the workspace in release mode. What follows `--` goes to
criterion: a name to select by, or `--save-baseline NAME`.";

pub fn run(args: &[String]) -> Outcome {
    let rest = match args.split_first() {
        None => &[],
        Some((first, rest)) if first == "--" => rest,
        Some((first, _)) => return Err(crate::unknown_argument("bench", first)),
    };
    if !has_benchmarks()? {
        eprintln!("xtask: this workspace has no benchmark targets");
        return Ok(0);
    }
    step("benchmarks", || {
        command::status(command::cargo(&["bench", "--bench", "*", "--"]).args(rest))
    })
}

/// Whether a crate declares a benchmark or keeps one where Cargo looks for it.
fn has_benchmarks() -> Result<bool, String> {
    for manifest in files::under(&command::root().join("crates"), &["toml"])? {
        if manifest.ends_with("Cargo.toml") {
            let beside = manifest.with_file_name("benches");
            if files::text(&manifest)?.contains("[[bench]]") || beside.is_dir() {
                return Ok(true);
            }
        }
    }
    Ok(false)
}
