//! Builds the programs of a release: the same bits in every folder, and for systems older than this one.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::python::environment::{Environment, interpreter};
use crate::systems::{System, environment};
use crate::{command, files};

/// The programs.
pub const PROGRAMS: [&str; 2] = ["hlx", "hlx-bench"];

/// What links for older systems, in versions whose bits are known.
const LINKERS: [&str; 2] = ["ziglang==0.17.1", "cargo-zigbuild==0.24.1"];

/// The folder of the programs of a system.
pub fn folder(root: &Path, system: &System) -> PathBuf {
    root.join("target/dist").join(system.target).join("release")
}

/// What links.
pub struct Tools(Environment);

impl Tools {
    /// Installs zig and what Cargo calls it by into target/python/release.
    pub fn make() -> Result<Self, String> {
        let python = interpreter(None).ok_or("release: no Python 3.11 or newer with venv")?;
        Environment::make("release", &python, &LINKERS).map(Self)
    }

    /// Builds the programs for a system, and gives their folder.
    pub fn build(&self, root: &Path, system: &System) -> Result<PathBuf, String> {
        let target = format!("{}{}", system.target, system.glibc.unwrap_or_default());
        let mut cargo = match system.glibc {
            Some(_) => {
                let mut zig = self.0.command("cargo-zigbuild");
                zig.arg("zigbuild");
                zig
            }
            None => command::cargo(&["build"]),
        };
        cargo
            .current_dir(root)
            .args(["--release", "--locked", "--bins", "--target", &target]);
        cargo.args(["-p", "hlx-cli", "-p", "hlx-bench"]);
        cargo.envs(environment(root, system)?);
        command::succeed("cargo build", &mut cargo)?;
        let programs = folder(root, system);
        for name in PROGRAMS {
            finish(&programs.join(format!("{name}{}", system.suffix)), system)?;
        }
        Ok(programs)
    }

    /// The commit and the versions that the bits depend on.
    pub fn facts(&self, root: &Path) -> Result<String, String> {
        let line = |name: &str, command: &mut Command| {
            let text = command::capture(name, command.current_dir(root))?;
            Ok::<_, String>(text.trim().to_owned())
        };
        let commit = line(
            "git",
            Command::new("git").args(["log", "-1", "--format=%H"]),
        )?;
        let rust = line("rustc", Command::new("rustc").arg("--version"))?;
        Ok(format!("commit {commit}\n{rust}\n{}\n", LINKERS.join("\n")))
    }
}

/// Checks that kernels call no multiply-add of the platform, and takes the symbols out where the linker did not.
fn finish(program: &Path, system: &System) -> Result<(), String> {
    let mut nm = Command::new("nm");
    // A program without symbols still names what it takes from the C library.
    if system.glibc.is_some() {
        nm.arg("-D");
    }
    let symbols = command::capture("nm", nm.arg(program))?;
    let mut names = symbols
        .lines()
        .filter_map(|line| line.split_whitespace().last());
    if let Some(name) = names.find(|name| {
        name.split('@')
            .next()
            .is_some_and(|name| FMAF.contains(&name))
    }) {
        return Err(format!(
            "{}: calls the platform's {name}",
            program.display()
        ));
    }
    match system.glibc {
        Some(_) => Ok(()),
        None => {
            let mut strip = Command::new("x86_64-w64-mingw32-strip");
            command::succeed("strip", strip.arg("--strip-all").arg(program))
        }
    }
}

const FMAF: [&str; 3] = ["fmaf", "fmaf32", "__imp_fmaf"];

/// The folder of a program that this machine runs: of the system's own, else of an ordinary build.
pub fn runs_here(system: &System, programs: &Path) -> Result<PathBuf, String> {
    let own = format!("{}-unknown-linux-gnu", std::env::consts::ARCH);
    if cfg!(target_os = "linux") && system.target == own {
        return Ok(programs.to_owned());
    }
    command::build("hlx", &["-p", "hlx-cli"])?;
    let program = command::built("hlx");
    Ok(program.parent().map(PathBuf::from).unwrap_or_default())
}

/// The workspace's version.
pub fn version(root: &Path) -> Result<String, String> {
    let manifest = files::text(&root.join("Cargo.toml"))?;
    let section = manifest
        .split("[workspace.package]")
        .nth(1)
        .unwrap_or_default();
    let line = section
        .lines()
        .find_map(|line| line.strip_prefix("version = \""));
    let version = line.and_then(|rest| rest.split('"').next());
    version
        .map(str::to_owned)
        .ok_or_else(|| "Cargo.toml: has no version of the workspace".to_owned())
}

#[cfg(test)]
mod tests {
    use super::version;
    use crate::command;

    #[test]
    fn the_version_is_that_of_the_workspace() {
        let version = version(&command::root()).expect("a version");
        assert_eq!(version, env!("CARGO_PKG_VERSION"));
    }
}
