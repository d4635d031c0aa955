//! Runs other programs and times what is done, one line a step.

use std::io::{IsTerminal, stderr};
use std::path::PathBuf;
use std::process::Command;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::{Duration, Instant};

/// The root of the repository, from any current folder.
pub fn root() -> PathBuf {
    // Cargo sets the variable for `cargo run`; the constant serves a binary started by hand.
    let manifest = std::env::var("CARGO_MANIFEST_DIR")
        .unwrap_or_else(|_| env!("CARGO_MANIFEST_DIR").to_string());
    PathBuf::from(manifest)
        .parent()
        .map(PathBuf::from)
        .unwrap_or_default()
}

/// A `cargo` command that runs in the repository's root with the cargo that runs us.
pub fn cargo(args: &[&str]) -> Command {
    let program = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = Command::new(program);
    command.current_dir(root()).args(args);
    // These describe xtask itself, and would differ from what a user's own cargo passes on.
    command
        .env_remove("CARGO_MANIFEST_DIR")
        .env_remove("CARGO_PKG_NAME");
    command
}

/// As [`cargo`], but silent unless something is wrong or somebody watches a terminal.
pub fn quiet_cargo(args: &[&str]) -> Command {
    let mut command = cargo(args);
    if !stderr().is_terminal() {
        command.env("CARGO_TERM_QUIET", "true");
    }
    command
}

/// Where a program of the workspace lies after a release build.
pub fn built(name: &str) -> PathBuf {
    let root = root();
    let target = std::env::var_os("CARGO_TARGET_DIR").map_or(root.join("target"), PathBuf::from);
    let file = format!("{name}{}", std::env::consts::EXE_SUFFIX);
    root.join(target).join("release").join(file)
}

/// Runs a command with our own input and output; gives its exit status (130 for a signal).
pub fn status(command: &mut Command) -> Result<u8, String> {
    let name = command.get_program().to_string_lossy().into_owned();
    let status = command
        .status()
        .map_err(|error| format!("cannot run {name}: {error}"))?;
    Ok(status
        .code()
        .map_or(130, |code| u8::try_from(code).unwrap_or(1)))
}

/// Ends this program with a command in its place, where the system can: Ctrl-C then goes to the
/// command alone, which finishes what it must. Elsewhere as [`status`].
pub fn replace(command: &mut Command) -> Result<u8, String> {
    #[cfg(unix)]
    {
        use std::os::unix::process::CommandExt;
        let error = command.exec();
        let name = command.get_program().to_string_lossy();
        Err(format!("cannot run {name}: {error}"))
    }
    #[cfg(not(unix))]
    status(command)
}

/// Runs a command and fails with `what` when it fails.
pub fn succeed(what: &str, command: &mut Command) -> Result<(), String> {
    match status(command)? {
        0 => Ok(()),
        code => Err(format!("{what} failed with status {code}")),
    }
}

/// Runs a command and returns its output; an error has all that it wrote.
pub fn capture(what: &str, command: &mut Command) -> Result<String, String> {
    let name = command.get_program().to_string_lossy().into_owned();
    let output = command
        .output()
        .map_err(|error| format!("cannot run {name}: {error}"))?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    if output.status.success() {
        return Ok(text);
    }
    Err(format!(
        "{what}:\n{text}{}",
        String::from_utf8_lossy(&output.stderr).trim_end()
    ))
}

/// Whether a program of that name can be started.
pub fn on_path(program: &str) -> bool {
    let file = if cfg!(windows) {
        format!("{program}.exe")
    } else {
        program.to_string()
    };
    let paths = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&paths).any(|dir| dir.join(&file).is_file())
}

/// Seconds between two lines of a build that nobody watches on a terminal.
const STILL_BUILDING: Duration = Duration::from_secs(15);

/// Builds a program of the workspace as a step. On a terminal Cargo shows how far it is; elsewhere a line every 15
/// seconds says that it goes on.
pub fn build(what: &str, args: &[&str]) -> Result<(), String> {
    step(&format!("building {what}"), || {
        let (done, waits) = mpsc::channel::<()>();
        let watched = stderr().is_terminal();
        let begun = Instant::now();
        std::thread::scope(|scope| {
            scope.spawn(move || {
                while !watched
                    && waits.recv_timeout(STILL_BUILDING) == Err(RecvTimeoutError::Timeout)
                {
                    let seconds = begun.elapsed().as_secs();
                    eprintln!("xtask: still building {what} after {seconds} s (the first build takes minutes)");
                }
            });
            let built = succeed("the build", quiet_cargo(&["build", "--release"]).args(args));
            drop(done);
            built
        })
    })
}

/// Prints what is done, does it, and prints how long it took.
pub fn step<T>(what: &str, work: impl FnOnce() -> Result<T, String>) -> Result<T, String> {
    eprintln!("xtask: {what} ...");
    let start = Instant::now();
    let result = work();
    let word = if result.is_ok() { "done" } else { "failed" };
    eprintln!(
        "xtask: {what}: {word} in {:.1} s",
        start.elapsed().as_secs_f64()
    );
    result
}

/// The words of a command line, as verbs read them in tests.
/// Writes the documentation of the default members, or of those that are named; a warning is an error.
pub fn document(members: &[&str]) -> Result<(), String> {
    let mut doc = quiet_cargo(&["doc", "--release", "--no-deps"]);
    doc.args(members).env("RUSTDOCFLAGS", "-D warnings");
    succeed("rustdoc", &mut doc)
}

#[cfg(test)]
pub fn words(line: &str) -> Vec<String> {
    line.split_whitespace().map(str::to_owned).collect()
}
