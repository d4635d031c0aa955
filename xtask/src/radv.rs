//! `cargo xtask ports`, RADV: every module compiled for AMD's chips, none of which is here.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::command::{self, step};
use crate::{digests, files, setup, specializations};

/// Chips that Debian 12's Mesa knows: of RDNA 3, RDNA 2 and Vega.
const CHIPS: [&str; 3] = ["gfx1100", "navi21", "vega10"];
/// Chips that Debian 13's Mesa is tried with: of RDNA 3, RDNA 4, RDNA 3.5 and RDNA 2.
const NEWER_CHIPS: [&str; 4] = ["navi31", "gfx1201", "gfx1151", "navi21"];
/// The module by which a driver's multiply-add is known.
const PROBE: &str = "probe/arithmetic";

/// How much is compiled.
#[derive(Clone, Copy)]
pub struct Extent {
    /// Every row of the list for every chip, instead of one row per module for one of them.
    pub full: bool,
    /// Debian 13's Mesa too.
    pub newer: bool,
    /// The table of docs/amd.md is written anew.
    pub table: bool,
}

/// Compiles the modules; returns what is missing.
pub fn check(extent: Extent) -> Result<Vec<String>, String> {
    let Some(manifest) = manifest(Path::new("/")) else {
        return Ok(vec!["Mesa's RADV is not installed".to_owned()]);
    };
    let program = command::built("radv");
    step("building radv", || {
        let args = ["build", "--release", "-p", "radv"];
        command::succeed("cargo build", &mut command::quiet_cargo(&args))
    })?;
    let (root, out) = (command::root(), folder()?);
    let modules = modules(&root)?;
    let mut outputs = Vec::new();
    for (place, chip) in CHIPS.iter().enumerate() {
        let chosen = modules.iter().enumerate().filter(|(idx, (name, _))| {
            extent.full || extent.table || name == PROBE || idx % CHIPS.len() == place
        });
        let output = out.join(format!("mesa-{chip}.tsv"));
        let mut radv = Command::new(&program);
        radv.arg("check")
            .arg(specializations::file(&root))
            .arg(&output);
        radv.arg(rows(extent));
        for (_, (name, file)) in chosen {
            radv.arg(name).arg(file);
        }
        compile(chip, &manifest, &mut radv)?;
        outputs.push(output);
    }
    if extent.newer {
        let missing = check_newer(extent, &program, &modules, &mut outputs)?;
        if !missing.is_empty() {
            return Ok(missing);
        }
    }
    if extent.table {
        write_table(&root.join("docs/amd.md"), &program, &outputs)?;
    }
    Ok(Vec::new())
}

fn rows(extent: Extent) -> &'static str {
    if extent.full { "all" } else { "first" }
}

/// Modules by name.
fn modules(root: &Path) -> Result<Vec<(String, PathBuf)>, String> {
    let shaders = digests::shaders(root)?.into_iter();
    Ok(shaders.map(|shader| (shader.name, shader.module)).collect())
}

/// The folder of the outputs.
fn folder() -> Result<PathBuf, String> {
    let folder = command::root().join("target/ports/radv");
    let made = std::fs::create_dir_all(&folder);
    made.map_err(|error| format!("{}: {error}", folder.display()))?;
    Ok(folder)
}

/// The driver's manifest below a system's root, as a path in that system.
fn manifest(root: &Path) -> Option<String> {
    let names = [
        "radeon_icd.x86_64.json",
        "radeon_icd.json",
        "radeon_icd.aarch64.json",
    ];
    let mut paths = names
        .iter()
        .map(|name| format!("usr/share/vulkan/icd.d/{name}"));
    let found = paths.find(|path| root.join(path).is_file())?;
    (root != Path::new("/") || setup::has_vulkan()).then(|| format!("/{found}"))
}

/// Runs a check for a chip that is not here, and shows what it prints.
fn compile(chip: &str, manifest: &str, radv: &mut Command) -> Result<(), String> {
    let environment = [
        ("RADV_FORCE_FAMILY", chip),
        ("VK_DRIVER_FILES", manifest),
        // The name of the variable in older loaders.
        ("VK_ICD_FILENAMES", manifest),
        ("MESA_SHADER_CACHE_DISABLE", "true"),
    ];
    radv.envs(environment)
        .env_remove("RADV_DEBUG")
        .env_remove("RADV_PERFTEST");
    let text = step(&format!("compiling for {chip}"), || {
        command::capture(chip, radv)
    })?;
    print!("{text}");
    Ok(())
}

/// The same with Debian 13's Mesa, in a folder of its own.
fn check_newer(
    extent: Extent,
    program: &Path,
    modules: &[(String, PathBuf)],
    outputs: &mut Vec<PathBuf>,
) -> Result<Vec<String>, String> {
    let debian = command::root().join("target/ports/trixie");
    if manifest(&debian).is_none() {
        if !command::on_path("mmdebstrap") {
            return Ok(vec!["no mmdebstrap on the path".to_owned()]);
        }
        step("making a Debian 13", || {
            let mut make = Command::new("mmdebstrap");
            make.args([
                "--variant=essential",
                "--include=mesa-vulkan-drivers,libvulkan1",
                "trixie",
            ]);
            command::capture("mmdebstrap", make.arg(&debian)).map(drop)
        })?;
    }
    let manifest = manifest(&debian).ok_or("the Debian 13 has no RADV")?;
    let inside = debian.join("hlx");
    let copy = |from: &Path, name: &str| {
        let to = inside.join(name);
        let folder = to.parent().unwrap_or(&inside);
        let made = std::fs::create_dir_all(folder).and_then(|()| std::fs::copy(from, &to));
        made.map_err(|error| format!("{}: {error}", to.display()))
    };
    copy(program, "radv")?;
    copy(&specializations::file(&command::root()), "list")?;
    for (name, module) in modules {
        copy(module, name)?;
    }
    for chip in NEWER_CHIPS {
        let mut radv = Command::new("chroot");
        radv.arg(&debian);
        radv.args([
            "/hlx/radv",
            "check",
            "/hlx/list",
            "/hlx/output",
            rows(extent),
        ]);
        for (name, _) in modules {
            radv.arg(name).arg(format!("/hlx/{name}"));
        }
        compile(chip, &manifest, &mut radv)?;
        let output = folder()?.join(format!("newer-mesa-{chip}.tsv"));
        let copied = std::fs::copy(inside.join("output"), &output);
        copied.map_err(|error| format!("{}: {error}", output.display()))?;
        outputs.push(output);
    }
    Ok(Vec::new())
}

/// The line of the page that the table follows to the page's end.
const MARK: &str = "<!-- cargo xtask ports --only radv --mesa25 --table -->\n";

fn write_table(page: &Path, program: &Path, outputs: &[PathBuf]) -> Result<(), String> {
    let table = command::capture(
        "radv table",
        Command::new(program).arg("table").args(outputs),
    )?;
    let text = files::text(page)?;
    let (before, _) = text
        .split_once(MARK)
        .ok_or_else(|| format!("{}: no line {MARK}", page.display()))?;
    files::write(page, format!("{before}{MARK}\n{table}").as_bytes())
}
