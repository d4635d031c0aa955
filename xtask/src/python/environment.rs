//! Interpreters and virtual environments: where Python's tools and the package under test are installed.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::command::{self, step};
use crate::files;

/// What builds and checks the package.
pub const TOOLS: [&str; 2] = ["maturin>=1.9,<2", "ruff>=0.12"];
/// What builds wheels for older and other systems: a C compiler with the libraries of all of them.
pub const FOR_WHEELS: [&str; 1] = ["ziglang>=0.13"];
/// What the tests, the notebooks and the checks of types need beside the package.
pub const BESIDE_THE_PACKAGE: [&str; 9] = [
    "ipykernel>=6.29",
    "matplotlib>=3.9",
    "nbclient>=0.10",
    "numpy>=1.26",
    "pytest>=8",
    "safetensors>=0.4",
    "mypy>=1.18",
    "pyright[nodejs]>=1.1.400",
    "typing_extensions>=4.12",
];

/// A folder or file below target/python.
pub fn output(name: &str) -> PathBuf {
    command::root().join("target").join("python").join(name)
}

/// An interpreter that is new enough and can make virtual environments: the given one, python3 or the newest.
pub fn interpreter(given: Option<&str>) -> Option<PathBuf> {
    let newest = (11..=14).rev().map(|minor| format!("python3.{minor}"));
    let found = ["python3".to_string(), "python".to_string()]
        .into_iter()
        .chain(newest);
    let mut tried: Box<dyn Iterator<Item = String>> = match given {
        Some(given) => Box::new([given.to_string()].into_iter()),
        None => Box::new(found),
    };
    tried.find_map(|program| full_path(&program))
}

/// Where an interpreter of at least 3.11 with venv lies, by its own word.
fn full_path(program: &str) -> Option<PathBuf> {
    let script =
        "import sys, venv, ensurepip; assert sys.version_info >= (3, 11); print(sys.executable)";
    let output = Command::new(program).args(["-c", script]).output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    (output.status.success() && !text.trim().is_empty()).then(|| PathBuf::from(text.trim()))
}

/// A virtual environment below target/python.
pub struct Environment {
    folder: PathBuf,
}

impl Environment {
    /// Makes an environment with packages of PyPI, unless it is there with just these.
    pub fn make(name: &str, python: &Path, packages: &[&str]) -> Result<Self, String> {
        let environment = Self {
            folder: output(name),
        };
        // Names what was installed, and into which interpreter's environment.
        let stamp = environment.folder.join("made-of.txt");
        let wanted = format!("{}\n{}\n", python.display(), packages.join("\n"));
        if files::text(&stamp).is_ok_and(|made| made == wanted) {
            return Ok(environment);
        }
        step(
            &format!("target/python/{name}: {}", packages.join(", ")),
            || {
                let _ = std::fs::remove_dir_all(&environment.folder);
                let mut venv = Command::new(python);
                venv.args(["-m", "venv"]).arg(&environment.folder);
                command::capture("venv", &mut venv)?;
                environment.pip(packages)
            },
        )?;
        files::write(&stamp, wanted.as_bytes())?;
        Ok(environment)
    }

    /// An environment that an earlier call has made.
    pub fn existing(name: &str) -> Option<Self> {
        let folder = output(name);
        folder
            .join("made-of.txt")
            .is_file()
            .then_some(Self { folder })
    }

    /// Adds packages of PyPI.
    pub fn pip(&self, packages: &[&str]) -> Result<(), String> {
        if packages.is_empty() {
            return Ok(());
        }
        let mut pip = self.python();
        pip.args([
            "-m",
            "pip",
            "install",
            "--quiet",
            "--disable-pip-version-check",
        ]);
        command::capture("pip", pip.args(packages)).map(drop)
    }

    /// Puts a wheel in the place of the one that is installed, and nothing else.
    pub fn install(&self, wheel: &Path) -> Result<(), String> {
        let wheel = wheel.to_string_lossy();
        self.pip(&["--force-reinstall", "--no-deps", "--no-index", &wheel])
    }

    /// Where one of the environment's programs lies.
    pub fn program(&self, name: &str) -> PathBuf {
        let (folder, suffix) = if cfg!(windows) {
            ("Scripts", ".exe")
        } else {
            ("bin", "")
        };
        self.folder.join(folder).join(format!("{name}{suffix}"))
    }

    /// A command that starts one of the environment's programs in the repository's root. The environment is active for
    /// it: pyright and maturin look for Python and zig on the path.
    pub fn command(&self, name: &str) -> Command {
        let program = self.program(name);
        let mut command = Command::new(&program);
        command.current_dir(command::root());
        let mut path: Vec<PathBuf> = program.parent().map(PathBuf::from).into_iter().collect();
        path.extend(std::env::split_paths(
            &std::env::var_os("PATH").unwrap_or_default(),
        ));
        if let Ok(path) = std::env::join_paths(path) {
            command.env("PATH", path);
        }
        // maturin's cargo builds the workspace's crates as every other cargo does: see `command::cargo`.
        for variable in ["CARGO_MANIFEST_DIR", "CARGO_PKG_NAME", "PYTHONPATH"] {
            command.env_remove(variable);
        }
        command
    }

    /// A command that starts the environment's Python.
    pub fn python(&self) -> Command {
        let mut python = self.command("python");
        // So that neither the current folder nor the sources are imported in place of the installed package.
        python.env("PYTHONSAFEPATH", "1");
        python
    }
}
