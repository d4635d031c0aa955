//! Runs tests: by Cargo, one program after another, or all of them two at a time, as many wait for ranks, for timeouts, or for one long
//! test, which leaves a core idle.

use std::collections::VecDeque;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

use crate::command;
use crate::summary::Results;

/// Programs at a time.
const LANES: usize = 2;
/// Programs whose longest tests take most, which begin first so that no lane waits for them at the end.
const LONG: [&str; 3] = ["hlx_bench", "ranks", "ways"];

/// A test program, and the folder of its package, in which Cargo would run it.
#[derive(Debug, PartialEq, Eq)]
struct Program {
    path: PathBuf,
    package: PathBuf,
}

/// Runs `cargo test`, shows its output and counts its results.
pub fn run(tests: &mut Command, results: &mut Results) -> Result<u8, String> {
    run_counted(tests, results, Results::read)
}

/// Runs a test program, shows its output and counts its results, which `read` finds in its lines.
pub fn run_counted(
    tests: &mut Command,
    results: &mut Results,
    read: fn(&mut Results, &str),
) -> Result<u8, String> {
    let cannot = |error: std::io::Error| format!("cannot run the tests: {error}");
    let mut child = tests.stdout(Stdio::piped()).spawn().map_err(cannot)?;
    if let Some(output) = child.stdout.take() {
        for line in BufReader::new(output).lines() {
            let line = line.map_err(cannot)?;
            println!("{line}");
            read(results, &line);
        }
    }
    let status = child.wait().map_err(cannot)?;
    if !status.success() {
        results.ended_early();
    }
    Ok(status
        .code()
        .map_or(130, |code| u8::try_from(code).unwrap_or(1)))
}

/// Builds the tests of the default members, runs each test program with `variables`, shows its output when it has ended, and counts
/// its results; the documentation's tests come behind them, by Cargo.
pub fn run_all(variables: &[(String, String)], results: &mut Results) -> Result<u8, String> {
    let programs = built()?;
    let queue = Mutex::new(VecDeque::from(programs));
    let (results, failed) = (Mutex::new(results), Mutex::new(Vec::new()));
    std::thread::scope(|scope| {
        for _ in 0..LANES {
            scope.spawn(|| {
                while let Some(program) = locked(&queue).pop_front() {
                    let (output, passed) = program.run(variables);
                    let mut results = locked(&results);
                    print!("{output}");
                    output.lines().for_each(|line| results.read(line));
                    if !passed {
                        results.ended_early();
                        locked(&failed).push(program.name());
                    }
                }
            });
        }
    });
    let mut of_docs = command::cargo(&["test", "--release", "--no-fail-fast", "--doc"]);
    of_docs.envs(variables.iter().cloned());
    let results = results.into_inner().unwrap_or_else(PoisonError::into_inner);
    let status = run(&mut of_docs, results)?;
    let failed = failed.into_inner().unwrap_or_else(PoisonError::into_inner);
    if failed.is_empty() {
        return Ok(status);
    }
    eprintln!("xtask: test programs that failed: {}", failed.join(", "));
    Ok(101)
}

fn locked<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Builds the tests; gives their programs, the long ones first.
fn built() -> Result<Vec<Program>, String> {
    let arguments = [
        "test",
        "--release",
        "--no-run",
        "--message-format",
        "json-render-diagnostics",
    ];
    let mut build = command::cargo(&arguments);
    build.stderr(Stdio::inherit());
    let messages = command::capture("building the tests", &mut build)?;
    let mut programs: Vec<Program> = messages.lines().filter_map(program_of).collect();
    if programs.is_empty() {
        return Err("building the tests: cargo named no program".to_string());
    }
    programs.sort_by_key(|program| {
        let name = program.name();
        let is_of = |long: &&str| name.rsplit_once('-').is_some_and(|(stem, _)| stem == *long);
        !LONG.iter().any(is_of)
    });
    Ok(programs)
}

/// The test program of a message of Cargo, if it has one.
fn program_of(message: &str) -> Option<Program> {
    // (A target says, too, whether it can be tested.)
    let (_, profile) = message.split_once("\"profile\":{")?;
    let (profile, _) = profile.split_once('}')?;
    if !profile.contains("\"test\":true") {
        return None;
    }
    let path = text_of(message, "executable")?;
    let manifest = text_of(message, "manifest_path")?;
    Some(Program {
        package: Path::new(&manifest).parent()?.to_path_buf(),
        path: path.into(),
    })
}

/// The text that stands under a name in a line of JSON; nothing for `null`.
fn text_of(json: &str, name: &str) -> Option<String> {
    let (_, rest) = json.split_once(&format!("\"{name}\":\""))?;
    let mut text = String::new();
    let mut letters = rest.chars();
    loop {
        match letters.next()? {
            '"' => return Some(text),
            '\\' => text.push(letters.next()?),
            letter => text.push(letter),
        }
    }
}

impl Program {
    fn name(&self) -> String {
        let stem = self.path.file_stem().unwrap_or_default();
        stem.to_string_lossy().into_owned()
    }

    /// Its output, with a first and a last line of ours, and whether it passed.
    fn run(&self, variables: &[(String, String)]) -> (String, bool) {
        let begun = Instant::now();
        let mut program = Command::new(&self.path);
        program
            .current_dir(&self.package)
            .env("CARGO_MANIFEST_DIR", &self.package)
            .envs(variables.iter().cloned());
        let (output, passed) = match program.output() {
            Ok(output) => {
                let [out, errors] = [&output.stdout, &output.stderr]
                    .map(|bytes| String::from_utf8_lossy(bytes).into_owned());
                // What tests write on standard error is shown where one failed.
                let passed = output.status.success();
                (if passed { out } else { out + &errors }, passed)
            }
            Err(error) => (format!("cannot run: {error}\n"), false),
        };
        let name = self.name();
        let seconds = begun.elapsed().as_secs_f64();
        let text = format!("\n     Running {name}\n{output}     {name}: {seconds:.1} s\n");
        (text, passed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ARTIFACT: &str = "{\"reason\":\"compiler-artifact\",\"manifest_path\":\"/a b/c/Cargo.toml\",\
        \"target\":{\"test\":true},\
        \"profile\":{\"opt_level\":\"3\",\"test\":true},\"executable\":\"/t/deps/ranks-0a\",\"fresh\":true}";

    #[test]
    fn test_programs_are_those_of_cargos_messages() {
        let expected = Program {
            path: "/t/deps/ranks-0a".into(),
            package: "/a b/c".into(),
        };
        assert_eq!(program_of(ARTIFACT), Some(expected));
        let of_library = ARTIFACT.replace("\"/t/deps/ranks-0a\"", "null");
        assert_eq!(program_of(&of_library), None);
        assert_eq!(
            program_of(&ARTIFACT.replace("\"test\":true},\"exe", "\"test\":false},\"exe")),
            None
        );
        assert_eq!(
            program_of("{\"reason\":\"build-finished\",\"success\":true}"),
            None
        );
        assert_eq!(
            text_of(r#"{"a":"C:\\b\"c"}"#, "a").as_deref(),
            Some("C:\\b\"c")
        );
    }

    #[test]
    fn a_program_that_cannot_be_run_has_failed() {
        let program = Program {
            path: "/nowhere/test-0a".into(),
            package: "/".into(),
        };
        let (output, passed) = program.run(&[]);
        assert!(
            !passed && output.contains("Running test-0a\ncannot run: "),
            "{output}"
        );
    }
}
