//! Runs the package of a wheel in an interpreter of its system: the digests must be those of this machine.

use std::fmt;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::environment::{self, Environment};
use crate::command::{self, step};

/// Computes a little of everything on the CPU device and prints the digests.
const DIGESTS: &str = "python/tools/digests.py";
/// Debian's Python for AArch64, without what only its installation scripts need.
const AARCH64: &str = "--include=python3.11-minimal,libpython3.11-stdlib,libgcc-s1";

/// Whether a wheel was tried.
pub enum Tried {
    /// Its digests are those of this machine; by which interpreter.
    Yes(String),
    /// It was not, and why.
    No(&'static str),
}

impl fmt::Display for Tried {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Yes(interpreter) => write!(f, "{interpreter}: the same digests"),
            Self::No(reason) => write!(f, "not tried: {reason}"),
        }
    }
}

/// Tries a wheel of this machine's system in a fresh environment, and writes the digests down for the others.
pub fn here(wheel: &Path, python: &Path) -> Result<Tried, String> {
    let found = digests(&mut installed("tried", wheel, python)?)?;
    crate::files::write(&environment::output("digests.txt"), found.as_bytes())?;
    Ok(Tried::Yes(version(&mut Command::new(python))?))
}

/// Tries a free-threaded wheel, where such an interpreter is on the path.
pub fn free_threaded(wheel: &Path, _: &Path) -> Result<Tried, String> {
    const PROGRAM: &str = "python3.14t";
    if !command::on_path(PROGRAM) {
        return Ok(Tried::No("no python3.14t on the path"));
    }
    compare(&digests(&mut installed(
        "tried-free-threaded",
        wheel,
        Path::new(PROGRAM),
    )?)?)?;
    Ok(Tried::Yes(version(&mut Command::new(PROGRAM))?))
}

/// Tries a wheel for AArch64 under qemu-user with Debian's interpreter.
pub fn aarch64(wheel: &Path, python: &Path) -> Result<Tried, String> {
    if !command::on_path("qemu-aarch64") || !command::on_path("mmdebstrap") {
        return Ok(Tried::No("no qemu-aarch64 or mmdebstrap on the path"));
    }
    let root = environment::output("aarch64");
    let program = root.join("usr/bin/python3.11");
    if !program.exists() {
        step("unpacking Debian's Python for AArch64", || {
            let mut make = Command::new("mmdebstrap");
            make.args([
                "--quiet",
                "--variant=extract",
                "--architecture=arm64",
                AARCH64,
                "bookworm",
            ]);
            command::capture("mmdebstrap", make.arg(&root)).map(drop)
        })?;
    }
    let qemu = || {
        let mut qemu = Command::new("qemu-aarch64");
        qemu.arg("-L").arg(&root).arg(&program);
        qemu
    };
    let package = unpacked("tried-aarch64", wheel, python)?;
    compare(&digests(qemu().env("PYTHONPATH", package))?)?;
    Ok(Tried::Yes(format!(
        "{} under qemu-user",
        version(&mut qemu())?
    )))
}

/// The Python of a fresh environment with a wheel.
fn installed(name: &str, wheel: &Path, python: &Path) -> Result<Command, String> {
    let _ = std::fs::remove_dir_all(environment::output(name));
    let environment = Environment::make(name, python, &[])?;
    environment.install(wheel)?;
    Ok(environment.python())
}

/// The folder of an unpacked wheel.
fn unpacked(name: &str, wheel: &Path, python: &Path) -> Result<PathBuf, String> {
    let folder = environment::output(name);
    let _ = std::fs::remove_dir_all(&folder);
    let mut unpack = Command::new(python);
    unpack.args(["-m", "zipfile", "-e"]).arg(wheel).arg(&folder);
    command::capture("zipfile", &mut unpack)?;
    Ok(folder)
}

fn digests(python: &mut Command) -> Result<String, String> {
    python.arg(DIGESTS).current_dir(command::root());
    command::capture("digests.py", python)
}

fn version(python: &mut Command) -> Result<String, String> {
    let text = command::capture("python", python.arg("--version"))?;
    Ok(text.trim().to_string())
}

/// Fails where the digests are not those that [`here`] has written.
fn compare(found: &str) -> Result<(), String> {
    let expected = crate::files::text(&environment::output("digests.txt"))?;
    let lines = expected.lines().zip(found.lines());
    match lines.into_iter().find(|(here, there)| here != there) {
        None if !found.is_empty() && expected.lines().eq(found.lines()) => Ok(()),
        None => Err("python: the wheel printed fewer or more digests".to_string()),
        Some((here, there)) => Err(format!("python: the wheel has {there}, here it is {here}")),
    }
}
