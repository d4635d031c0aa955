//! What archives hold, and where.

use std::path::Path;
use std::process::Command;

use super::deb::{self, Made};
use crate::listing::{List, add_data, file_name};
use crate::packer::packer;
use crate::systems::System;
use crate::{command, files};

/// The shells, and the names of their completions.
const SHELLS: [(&str, &str); 4] = [
    ("bash", "hlx.bash"),
    ("zsh", "_hlx"),
    ("fish", "hlx.fish"),
    ("powershell", "hlx.ps1"),
];

/// Packs the archive of a system, its inventory, and its package of Debian.
pub fn pack(
    root: &Path,
    out: &Path,
    version: &str,
    system: &System,
    programs: &Path,
    helper: &Path,
    epoch: u64,
) -> Result<(), String> {
    let name = format!("hlx-{version}-{}", named(system));
    let scratch = root.join("target/dist/pack").join(system.name);
    let made = make(root, &scratch, system, helper)?;
    let mut sbom = packer("sbom");
    sbom.arg("--root")
        .arg(root)
        .args(["--target", system.target]);
    command::succeed(
        "the inventory",
        sbom.arg("--out").arg(out.join(format!("{name}.cdx.json"))),
    )?;
    let mut list = List::default();
    list.add_programs(&format!("{name}/bin/"), system.suffix, programs);
    for file in ["LICENSE-MIT", "LICENSE-APACHE", "README.md", "CHANGELOG.md"] {
        list.add("644", &format!("{name}/{file}"), &root.join(file));
    }
    list.add(
        "644",
        &format!("{name}/LICENSES-CRATES.txt"),
        &made.licences,
    );
    add_data(&mut list, root, &format!("{name}/"))?;
    for page in &made.manual {
        list.add(
            "644",
            &format!("{name}/share/man/man1/{}", file_name(page)),
            page,
        );
    }
    for (_, file) in SHELLS {
        list.add(
            "644",
            &format!("{name}/share/completions/{file}"),
            &made.completions.join(file),
        );
    }
    let ending = if system.suffix.is_empty() {
        "tar.gz"
    } else {
        "zip"
    };
    packed(
        &list,
        &scratch,
        &out.join(format!("{name}.{ending}")),
        epoch,
    )?;
    match system.debian {
        Some(architecture) => deb::pack(
            root,
            out,
            version,
            architecture,
            programs,
            &made,
            &scratch,
            epoch,
        ),
        None => Ok(()),
    }
}

/// The name of a system in the names of archives.
pub fn named(system: &System) -> &'static str {
    match system.name {
        "x86-64" => "x86_64-linux",
        "aarch64" => "aarch64-linux",
        _ => "x86_64-windows",
    }
}

/// Makes the manual, the completions and the licences.
fn make(root: &Path, scratch: &Path, system: &System, helper: &Path) -> Result<Made, String> {
    let _ = std::fs::remove_dir_all(scratch);
    let (manual, completions) = (scratch.join("man"), scratch.join("completions"));
    for folder in [&manual, &completions] {
        std::fs::create_dir_all(folder)
            .map_err(|error| format!("{}: {error}", folder.display()))?;
    }
    let hlx = helper.join("hlx");
    command::capture("hlx man", Command::new(&hlx).arg("man").arg(&manual))?;
    for (shell, file) in SHELLS {
        let script = command::capture(
            "hlx completions",
            Command::new(&hlx).args(["completions", shell]),
        )?;
        files::write(&completions.join(file), script.as_bytes())?;
    }
    let licences = scratch.join("LICENSES-CRATES.txt");
    let mut list = packer("licences");
    list.arg("--root")
        .arg(root)
        .args(["--target", system.target])
        .arg("--out")
        .arg(&licences);
    command::succeed("the licences", &mut list)?;
    Ok(Made {
        manual: files::under(&manual, &["1"])?,
        completions,
        licences,
    })
}

/// Packs a list as an archive.
pub fn packed(list: &List, scratch: &Path, out: &Path, epoch: u64) -> Result<(), String> {
    let file = scratch.join("list.txt");
    list.write(&file)?;
    let mut pack = packer("pack");
    pack.arg(&file)
        .arg(out)
        .args(["--epoch", &epoch.to_string()]);
    command::succeed("packing", &mut pack)
}

/// Packs the SPIR-V modules, and the CSV files of the benchmarks.
pub fn pack_data(root: &Path, out: &Path, version: &str, epoch: u64) -> Result<(), String> {
    let scratch = root.join("target/dist/pack/data");
    std::fs::create_dir_all(&scratch).map_err(|error| format!("{}: {error}", scratch.display()))?;
    let sets: [(&str, &[&str], &[&str]); 2] = [
        ("spirv", &["crates", "shaders"], &["spv", "txt"]),
        (
            "benchmarks",
            &["benches/results", "benches/devices"],
            &["csv", "json"],
        ),
    ];
    for (set, folders, endings) in sets {
        let name = format!("hlx-{version}-{set}");
        let mut list = List::default();
        for folder in folders {
            for file in files::under(&root.join(folder), endings)? {
                let below = files::relative(root, &file);
                if set != "spirv" || below.ends_with(".spv") || below == "shaders/digests.txt" {
                    list.add("644", &format!("{name}/{below}"), &file);
                }
            }
        }
        for licence in ["LICENSE-MIT", "LICENSE-APACHE"] {
            list.add("644", &format!("{name}/{licence}"), &root.join(licence));
        }
        packed(&list, &scratch, &out.join(format!("{name}.tar.gz")), epoch)?;
    }
    Ok(())
}
