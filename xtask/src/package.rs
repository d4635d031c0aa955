//! `cargo xtask package`: the library crates as packages, and a project outside that uses them.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::command::{self, step};
use crate::{Outcome, files};

pub const HELP: &str = "\
cargo xtask package [--no-build]

Packs every library crate (`cargo package`), unpacks them into target/package/outside, and builds
and runs a project there that is no part of this workspace: it trains a small model for some steps
on the CPU with nothing but the packages and crates.io. Takes some minutes, so CI leaves it out.

  --no-build   pack and unpack only";

/// Members of the workspace that are not packages for others.
const UNPUBLISHED: [&str; 7] = [
    "xtask",
    "hlx-python",
    "hlx-bench",
    "shader-compiler",
    "shader-lint",
    "radv",
    "release",
];

/// The project's program.
const PROGRAM: &str = include_str!("../outside/main.rs");

pub fn run(args: &[String]) -> Outcome {
    let build = match args {
        [] => true,
        [only] if only == "--no-build" => false,
        [other, ..] => return Err(crate::unknown_argument("package", other)),
    };
    let root = command::root();
    let target = std::env::var_os("CARGO_TARGET_DIR").map_or(root.join("target"), PathBuf::from);
    let outside = target.join("package/outside");
    step("packing", pack)?;
    let packages = step("unpacking", || unpack(&target.join("package"), &outside))?;
    step("writing the project", || write_project(&outside, &packages))?;
    if build {
        step("building and running the project", || run_project(&outside))?;
    }
    Ok(0)
}

fn pack() -> Result<(), String> {
    // The project below builds the packages; building each alone as well would take hours.
    let mut pack =
        command::quiet_cargo(&["package", "--workspace", "--no-verify", "--allow-dirty"]);
    for name in UNPUBLISHED {
        pack.args(["--exclude", name]);
    }
    command::succeed("cargo package", &mut pack)
}

/// Unpacks every package below `outside`; returns their folders' names (`hlx-core-0.1.0`).
fn unpack(packages: &Path, outside: &Path) -> Result<Vec<String>, String> {
    let _ = std::fs::remove_dir_all(outside.join("packages"));
    let folder = outside.join("packages");
    std::fs::create_dir_all(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    let mut names = Vec::new();
    for file in files::under(packages, &["crate"])? {
        if file.parent() != Some(packages) {
            continue;
        }
        let mut tar = Command::new("tar");
        tar.arg("-xzf").arg(&file).arg("-C").arg(&folder);
        command::succeed("tar", &mut tar)?;
        names.extend(
            file.file_stem()
                .map(|stem| stem.to_string_lossy().into_owned()),
        );
    }
    if names.is_empty() {
        return Err(format!("no package in {}", packages.display()));
    }
    Ok(names)
}

fn write_project(outside: &Path, packages: &[String]) -> Result<(), String> {
    let mut manifest = String::from(
        "[package]\nname = \"outside\"\nversion = \"0.0.0\"\nedition = \"2024\"\n\n[workspace]\n\n\
         [dependencies]\nhlx = { package = \"hlx-ml\", version = \"0.1\" }\n\n\
         [profile.dev]\ndebug = false\n\n[patch.crates-io]\n",
    );
    for package in packages {
        let name = package
            .rsplit_once('-')
            .map_or(package.as_str(), |(name, _)| name);
        manifest += &format!("{name} = {{ path = \"packages/{package}\" }}\n");
    }
    let source = outside.join("src");
    std::fs::create_dir_all(&source).map_err(|error| format!("{}: {error}", source.display()))?;
    files::write(&outside.join("Cargo.toml"), manifest.as_bytes())?;
    files::write(&source.join("main.rs"), PROGRAM.as_bytes())
}

fn run_project(outside: &Path) -> Result<(), String> {
    let mut run = command::quiet_cargo(&["run"]);
    run.current_dir(outside).env_remove("CARGO_TARGET_DIR");
    command::succeed("the project outside", &mut run)
}
