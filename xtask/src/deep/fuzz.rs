//! libFuzzer on every target, several at a time.

use std::collections::VecDeque;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Mutex;

use super::checks::{host, nightly_cargo};
use crate::command::{self, step};
use crate::{Outcome, files};

/// How the targets are fuzzed.
pub struct Options {
    /// The seconds for each target.
    pub seconds: usize,
    /// Targets at a time.
    pub jobs: usize,
    /// All if empty.
    pub targets: Vec<String>,
    /// A fuzzer that is there.
    pub built: Option<PathBuf>,
}

/// What the fuzzer said of a target.
#[derive(Debug, Default, PartialEq, Eq)]
struct Said {
    executions: u64,
    new_inputs: u64,
    peak_mib: u64,
    ended_well: bool,
}

/// A run that takes longer than this is a fault, in seconds.
const SLOWEST: usize = 30;
/// The memory that a run may take, in MiB.
const MEMORY: usize = 4096;

pub fn run(options: &Options) -> Outcome {
    let root = command::root();
    let known = names(&root.join("fuzz/corpus"))?;
    let chosen = match options.targets.is_empty() {
        true => known,
        false => {
            if let Some(unknown) = options.targets.iter().find(|name| !known.contains(name)) {
                return Err(format!(
                    "deep: no target `{unknown}`; there are {}",
                    known.join(", ")
                ));
            }
            options.targets.clone()
        }
    };
    let fuzzer = match &options.built {
        Some(built) => built.clone(),
        None => build(&root)?,
    };
    let work = root.join("target/fuzz");
    let queue = Mutex::new(VecDeque::from(chosen));
    let found = Mutex::new(Vec::new());
    let next = || queue.lock().ok().and_then(|mut queue| queue.pop_front());
    std::thread::scope(|scope| {
        for _ in 0..options.jobs {
            scope.spawn(|| {
                while let Some(target) = next() {
                    let said = fuzz(&fuzzer, &root, &work.join(&target), &target, options);
                    if let Ok(mut found) = found.lock() {
                        eprintln!("xtask: fuzz: {target}: {said:?}");
                        found.push((target, said));
                    }
                }
            });
        }
    });
    let mut found = found.into_inner().map_err(|error| error.to_string())?;
    found.sort_by(|one, other| one.0.cmp(&other.0));
    println!("\nFuzzed for {} s each", options.seconds);
    let mut status = 0;
    for (target, said) in found {
        let Said {
            executions,
            new_inputs,
            peak_mib,
            ended_well,
        } = said?;
        let end = match ended_well {
            true => "clean".to_owned(),
            false => format!("FAILED: see {}", work.join(&target).display()),
        };
        println!(
            "  {target:20} {executions:>11} executions {new_inputs:>6} new inputs \
             {peak_mib:>5} MiB  {end}"
        );
        status = status.max(u8::from(!ended_well));
    }
    Ok(status)
}

/// Builds the fuzzer with the arithmetic of users' builds: without overflow checks and debug assertions.
fn build(root: &Path) -> Result<PathBuf, String> {
    let mut cargo = nightly_cargo();
    cargo.args(["fuzz", "build", "--release", "--sanitizer", "none"]);
    cargo.args(["--codegen-units", "16", "all"]);
    step("fuzzer", || {
        command::succeed("cargo fuzz build", &mut cargo)
    })?;
    Ok(root.join("fuzz/target").join(host()).join("release/all"))
}

/// Fuzzes one target; its log, new inputs and faults lie in `work`.
fn fuzz(
    fuzzer: &Path,
    root: &Path,
    work: &Path,
    target: &str,
    options: &Options,
) -> Result<Said, String> {
    let inputs = work.join("corpus");
    let failed = |error: std::io::Error| format!("{}: {error}", work.display());
    fs::create_dir_all(&inputs).map_err(failed)?;
    let log = work.join("log");
    let messages = fs::File::create(&log).map_err(failed)?;
    let status = Command::new(fuzzer)
        .current_dir(root)
        .env("HLX_FUZZ_TARGET", target)
        .arg(format!("-max_total_time={}", options.seconds))
        .arg(format!("-timeout={SLOWEST}"))
        .arg(format!("-rss_limit_mb={MEMORY}"))
        .arg(format!("-artifact_prefix={}/", work.display()))
        .arg("-print_final_stats=1")
        .arg(&inputs)
        .arg(root.join("fuzz/corpus").join(target))
        .stdout(messages.try_clone().map_err(failed)?)
        .stderr(messages)
        .status()
        .map_err(|error| format!("cannot run {}: {error}", fuzzer.display()))?;
    let text = String::from_utf8_lossy(&files::bytes(&log)?).into_owned();
    let mut said = read(&text);
    said.ended_well = status.success();
    Ok(said)
}

/// Reads libFuzzer's last lines: `stat::number_of_executed_units: 5`.
fn read(log: &str) -> Said {
    let value = |name: &str| {
        let mut lines = log.lines().rev();
        let found = lines.find_map(|line| line.strip_prefix("stat::")?.strip_prefix(name));
        let found = found.and_then(|rest| rest.trim_start_matches(':').trim().parse().ok());
        found.unwrap_or(0)
    };
    Said {
        executions: value("number_of_executed_units"),
        new_inputs: value("new_units_added"),
        peak_mib: value("peak_rss_mb"),
        ended_well: false,
    }
}

/// The names of a folder's folders.
fn names(folder: &Path) -> Result<Vec<String>, String> {
    let failed = |error: std::io::Error| format!("{}: {error}", folder.display());
    let mut names = Vec::new();
    for entry in fs::read_dir(folder).map_err(failed)? {
        let entry = entry.map_err(failed)?;
        if entry.path().is_dir() {
            names.push(entry.file_name().to_string_lossy().into_owned());
        }
    }
    names.sort();
    Ok(names)
}

#[cfg(test)]
mod tests {
    use super::{Said, read};

    #[test]
    fn the_fuzzers_last_lines_are_read() {
        let log = "#2 INITED\nstat::number_of_executed_units: 1200\nstat::new_units_added:   7\n\
                   stat::peak_rss_mb:               81\n";
        let expected = Said {
            executions: 1200,
            new_inputs: 7,
            peak_mib: 81,
            ended_well: false,
        };
        assert_eq!(read(log), expected);
        assert_eq!(read("killed"), Said::default());
    }
}
