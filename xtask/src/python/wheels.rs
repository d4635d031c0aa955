//! `cargo xtask python --wheels` and `cargo xtask release`: the wheels of all systems, and the source distribution.

use std::path::{Path, PathBuf};

use super::environment::{self, Environment};
use super::interpreters::{self, Tried};
use crate::command::{self, step};
use crate::systems::{self, SYSTEMS, System};
use crate::{Outcome, files};

/// What a package index takes of one file by default is 100 MB; ours stay far below.
const LIMIT_BYTES: u64 = 20_000_000;

/// A wheel of another system than this machine's newest.
struct Wheel {
    name: &'static str,
    system: &'static System,
    options: &'static [&'static str],
    /// Runs the package in an interpreter of that system.
    try_it: fn(&Path, &Path) -> Result<Tried, String>,
}

/// zig links with the C library of that age. Windows' imports are in the library itself (raw-dylib).
const WHEELS: [Wheel; 4] = [
    Wheel {
        name: "Linux, x86-64",
        system: &SYSTEMS[0],
        options: &["--zig", "--compatibility", "manylinux_2_28"],
        try_it: interpreters::here,
    },
    Wheel {
        name: "Linux, x86-64, free-threaded 3.14",
        system: &SYSTEMS[0],
        options: &[
            "--zig",
            "--compatibility",
            "manylinux_2_28",
            "--interpreter",
            "python3.14t",
        ],
        try_it: interpreters::free_threaded,
    },
    Wheel {
        name: "Linux, AArch64",
        system: &SYSTEMS[1],
        options: &["--zig", "--compatibility", "manylinux_2_28"],
        try_it: interpreters::aarch64,
    },
    Wheel {
        name: "Windows, x86-64",
        system: &SYSTEMS[2],
        options: &[],
        try_it: |_, _| Ok(Tried::No("no Python for Windows in the registries")),
    },
];

/// Which wheels are built, and how.
#[derive(Clone, Copy, Debug, Default)]
pub struct Wanted<'a> {
    /// Those of this system alone ([`System::name`]), and no source distribution.
    pub only: Option<&'a str>,
    /// As a release's programs are built: without this machine's folders in them.
    pub is_release: bool,
}

/// Builds them, tries those that can be tried, and prints their sizes.
pub fn run(tools: &Environment, python: &Path, wanted: Wanted<'_>) -> Outcome {
    tools.pip(&environment::FOR_WHEELS)?;
    let out = command::root().join("target/wheels");
    let _ = std::fs::remove_dir_all(&out);
    let mut rows = vec![];
    let mut left_out = Vec::new();
    let mut too_large = false;
    let is_chosen = |wheel: &&Wheel| wanted.only.is_none_or(|only| only == wheel.system.name);
    for wheel in WHEELS.iter().filter(is_chosen) {
        if let Some(missing) = wheel.system.missing() {
            left_out.push(format!("{}: {missing}", wheel.name));
            continue;
        }
        let file = step(wheel.name, || build(tools, wheel, &out, wanted.is_release))?;
        let tried = step(&format!("trying {}", wheel.name), || {
            (wheel.try_it)(&file, python)
        })?;
        too_large |= size(&file)? > LIMIT_BYTES;
        rows.push(row(&file, &tried.to_string())?);
    }
    if wanted.only.is_none() {
        let mut sdist = tools.command("maturin");
        sdist.args(["sdist", "--out"]).arg(&out);
        step("source distribution", || {
            command::succeed("maturin", &mut sdist)
        })?;
    }
    for file in files::under(&out, &["gz"])? {
        rows.push(row(&file, "")?);
    }
    println!("{}", rows.join("\n"));
    left_out
        .iter()
        .for_each(|line| println!("left out: {line}"));
    if too_large {
        return Err(format!(
            "python: a wheel is larger than {} MB",
            LIMIT_BYTES / 1_000_000
        ));
    }
    Ok(0)
}

/// Builds one wheel into a folder of its own, then moves it to the others.
fn build(
    tools: &Environment,
    wheel: &Wheel,
    out: &Path,
    is_release: bool,
) -> Result<PathBuf, String> {
    let folder = environment::output("one-wheel");
    let _ = std::fs::remove_dir_all(&folder);
    let mut maturin = tools.command("maturin");
    maturin.args(["build", "--quiet", "--target", wheel.system.target]);
    if is_release {
        maturin
            .arg("--locked")
            .envs(systems::environment(&command::root(), wheel.system)?);
    }
    maturin.args(wheel.options).arg("--out").arg(&folder);
    command::succeed("maturin", &mut maturin)?;
    let built = files::under(&folder, &["whl"])?.into_iter().next();
    let built = built.ok_or_else(|| format!("python: no wheel in {}", folder.display()))?;
    let file = out.join(built.file_name().unwrap_or_default());
    let moved = std::fs::create_dir_all(out).and_then(|()| std::fs::rename(&built, &file));
    moved.map_err(|error| format!("{}: {error}", file.display()))?;
    Ok(file)
}

fn size(file: &Path) -> Result<u64, String> {
    let metadata =
        std::fs::metadata(file).map_err(|error| format!("{}: {error}", file.display()))?;
    Ok(metadata.len())
}

/// A line of the table: the file, its size, and what was tried.
fn row(file: &Path, tried: &str) -> Result<String, String> {
    let name = file.file_name().unwrap_or_default().to_string_lossy();
    let megabytes = size(file)? as f64 / 1e6;
    Ok(format!("{name:62} {megabytes:5.1} MB  {tried}"))
}
