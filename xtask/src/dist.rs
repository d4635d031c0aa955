//! Builds the programs of a release: the same bits in every folder, and for systems older than this one.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::python::environment::{Environment, interpreter};
use crate::{command, files};

/// A system that programs are published for.
pub struct System {
    /// What `--only` and the archive's name call it.
    pub name: &'static str,
    /// Rust's name of it.
    pub target: &'static str,
    /// How zig names the age of its C library; other linkers take none.
    glibc: Option<&'static str>,
    /// Debian's name of the processor.
    pub debian: Option<&'static str>,
    /// The ending of programs.
    pub suffix: &'static str,
    /// A program without which it is not built.
    needs: Option<&'static str>,
}

/// zig links with the C library of that age, as for the wheels.
pub const SYSTEMS: [System; 3] = [
    System {
        name: "x86-64",
        target: "x86_64-unknown-linux-gnu",
        glibc: Some(".2.28"),
        debian: Some("amd64"),
        suffix: "",
        needs: None,
    },
    System {
        name: "aarch64",
        target: "aarch64-unknown-linux-gnu",
        glibc: Some(".2.28"),
        debian: Some("arm64"),
        suffix: "",
        needs: None,
    },
    System {
        name: "windows",
        target: "x86_64-pc-windows-gnu",
        glibc: None,
        debian: None,
        suffix: ".exe",
        needs: Some("x86_64-w64-mingw32-gcc"),
    },
];

/// The programs.
pub const PROGRAMS: [&str; 2] = ["hlx", "hlx-bench"];

/// What links for older systems, in versions whose bits are known.
const LINKERS: [&str; 2] = ["ziglang==0.17.1", "cargo-zigbuild==0.24.1"];

impl System {
    /// What is missing to build for it.
    pub fn missing(&self) -> Option<String> {
        let absent = self.needs.filter(|program| !command::on_path(program));
        if let Some(program) = absent {
            return Some(format!("no {program} on the path"));
        }
        let mut add = Command::new("rustup");
        add.args(["target", "add", self.target])
            .current_dir(command::root());
        // Without rustup the target may be there all the same: the build says it.
        match command::on_path("rustup") && command::capture("rustup", &mut add).is_err() {
            true => Some(format!("rustup cannot add {}", self.target)),
            false => None,
        }
    }
}

/// The folder of the programs of a system.
pub fn folder(root: &Path, system: &System) -> PathBuf {
    root.join("target/dist").join(system.target).join("release")
}

/// The time of the commit, or the one that SOURCE_DATE_EPOCH names, in seconds since 1970.
pub fn epoch(root: &Path) -> Result<u64, String> {
    let text = match std::env::var("SOURCE_DATE_EPOCH") {
        Ok(text) => text,
        Err(_) => {
            let mut log = Command::new("git");
            log.args(["log", "-1", "--format=%ct"]).current_dir(root);
            command::capture("git log", &mut log)?
        }
    };
    let text = text.trim();
    text.parse()
        .map_err(|_| format!("SOURCE_DATE_EPOCH is `{text}`, expected seconds since 1970"))
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

/// The variables of a build whose bits depend on the commit and the toolchain alone.
pub fn environment(root: &Path, system: &System) -> Result<Vec<(&'static str, String)>, String> {
    let mut variables = vec![
        (
            "CARGO_TARGET_DIR",
            root.join("target/dist").display().to_string(),
        ),
        ("CARGO_INCREMENTAL", "0".to_owned()),
        ("CARGO_PROFILE_RELEASE_INCREMENTAL", "false".to_owned()),
        ("SOURCE_DATE_EPOCH", epoch(root)?.to_string()),
        ("RUSTFLAGS", flags(root, system)?),
    ];
    if system.glibc.is_some() {
        variables.push(("CARGO_PROFILE_RELEASE_STRIP", "symbols".to_owned()));
    }
    Ok(variables)
}

/// Flags that take this machine's folders out of the programs.
fn flags(root: &Path, system: &System) -> Result<String, String> {
    let home = std::env::var_os("CARGO_HOME").map(PathBuf::from);
    let home = home.or_else(|| Some(PathBuf::from(std::env::var_os("HOME")?).join(".cargo")));
    let sources = home
        .ok_or("release: neither CARGO_HOME nor HOME is set")?
        .join("registry/src");
    let (root, sources) = (root.display(), sources.display());
    let mut flags = format!("--remap-path-prefix={root}=/hlx --remap-path-prefix={sources}=/cargo");
    if format!("{root}{sources}").contains(' ') {
        return Err(format!(
            "release: {root}: folders with spaces cannot be taken out of programs"
        ));
    }
    if system.glibc.is_none() {
        flags += " -Clink-arg=-Wl,--no-insert-timestamp";
    }
    Ok(flags)
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
