//! `cargo xtask deep`: what looks for undefined behaviour, data races and hostile input for hours.

mod checks;
mod fuzz;

use crate::{Outcome, unknown_argument};
use std::path::PathBuf;

pub const HELP: &str = "\
cargo xtask deep [--only miri|threads|fuzz] [--seconds S] [--jobs N] [--targets A,B] [--built FILE]

Runs Miri and ThreadSanitizer over the tests that they can run, each once with overflow checks and once
without, as users' builds are; then libFuzzer on each target of tools/fuzz-targets, with the arithmetic
of users' builds. What a fuzzer finds lies in target/fuzz/TARGET, and fails the verb.

Needs rustup's nightly: rustup component add miri rust-src --toolchain nightly; cargo install cargo-fuzz

  --only WHAT     miri, threads (ThreadSanitizer) or fuzz alone
  --seconds S     how long each target is fuzzed: 3600 if left out
  --jobs N        targets that are fuzzed at a time; the number of cores if left out
  --targets A,B   the targets; all if left out
  --built FILE    a fuzzer that was built before, such as on another machine";

/// What was requested.
struct Options {
    only: Option<String>,
    fuzz: fuzz::Options,
}

pub fn run(args: &[String]) -> Outcome {
    let options = read(args)?;
    let wanted = |what: &str| options.only.as_deref().is_none_or(|only| only == what);
    let checkers: Vec<_> = [
        ("miri", checks::Checker::Miri),
        ("threads", checks::Checker::ThreadSanitizer),
    ]
    .into_iter()
    .filter(|(name, _)| wanted(name))
    .map(|(_, checker)| checker)
    .collect();
    let mut worst = 0;
    if !checkers.is_empty() {
        worst = worst.max(checks::run(&checkers)?);
    }
    if wanted("fuzz") {
        worst = worst.max(fuzz::run(&options.fuzz)?);
    }
    Ok(worst)
}

fn read(args: &[String]) -> Result<Options, String> {
    let mut options = Options {
        only: None,
        fuzz: fuzz::Options {
            seconds: 3600,
            jobs: std::thread::available_parallelism().map_or(1, usize::from),
            targets: Vec::new(),
            built: None,
        },
    };
    let mut args = args.iter();
    while let Some(arg) = args.next() {
        let mut value = || {
            let value = args.next().filter(|value| !value.is_empty());
            value.ok_or_else(|| format!("deep: {arg} needs a value"))
        };
        let number = |text: &String| {
            let number = text.parse().ok().filter(|&number: &usize| number > 0);
            number.ok_or_else(|| format!("deep: {arg} is `{text}`, expected a number from 1 on"))
        };
        match arg.as_str() {
            "--only" => {
                let what = value()?;
                if !["miri", "threads", "fuzz"].contains(&what.as_str()) {
                    return Err(format!(
                        "deep: --only is `{what}`, expected miri, threads or fuzz"
                    ));
                }
                options.only = Some(what.clone());
            }
            "--seconds" => options.fuzz.seconds = number(value()?)?,
            "--jobs" => options.fuzz.jobs = number(value()?)?,
            "--targets" => options.fuzz.targets = value()?.split(',').map(str::to_owned).collect(),
            "--built" => options.fuzz.built = Some(PathBuf::from(value()?)),
            other => return Err(unknown_argument("deep", other)),
        }
    }
    Ok(options)
}

#[cfg(test)]
mod tests {
    use super::read;
    use crate::command;

    #[test]
    fn options_are_read_and_nonsense_is_refused() {
        let read = |line: &str| read(&command::words(line));
        let options = read("--only fuzz --seconds 5 --targets npy,npz").expect("reads");
        assert_eq!(options.only.as_deref(), Some("fuzz"));
        assert_eq!(options.fuzz.seconds, 5);
        assert_eq!(options.fuzz.targets, ["npy", "npz"]);
        for line in [
            "--only all",
            "--seconds",
            "--seconds 0",
            "--jobs x",
            "--other",
        ] {
            assert!(read(line).is_err(), "{line}");
        }
    }
}
