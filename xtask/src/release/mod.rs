//! `cargo xtask release`: everything that a version is published as, in one folder.

mod contents;
mod deb;
mod notes;

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::command::{self, step};
use crate::dist::{self, version};
use crate::packer::packer;
use crate::publisher::Publisher;
use crate::setup::{self, Consent};
use crate::systems::{self, SYSTEMS, System};
use crate::{Outcome, files, image, python};

pub const HELP: &str = "\
cargo xtask release [--only x86-64|aarch64|windows] [--no-wheels] [--image] [--twice DIR]
                    [--yes | --no-install]

Makes everything that a version is published as in target/release-VERSION: archives of the programs hlx
and hlx-bench for Linux on x86-64 and AArch64 (glibc 2.28) and for Windows, with manual pages, completions
of shells and the licences of all crates; packages of Debian; an inventory (CycloneDX) of each; Python
wheels; the SPIR-V modules; the benchmarks' CSV files; the notes of CHANGELOG.md; SHA256SUMS.

One commit and one Rust toolchain give the same bits in every folder; BUILD.txt names both. The source
distribution and the wheels are built by maturin, with the same flags, and are not promised to.

  --only S       this system alone: its archive, package and wheels
  --no-wheels    no wheels
  --image        the container image, too (`cargo xtask image`)
  --twice DIR    clones the commit into DIR, builds the archives there once more, compares
  --yes          install missing packages without asking; CI=true does the same
  --no-install   install nothing

docs/releasing.md has the steps of a release.";

#[derive(Debug, Default, PartialEq)]
struct Options {
    only: Option<String>,
    no_wheels: bool,
    image: bool,
    twice: Option<PathBuf>,
    consent: Option<Consent>,
}

pub fn run(args: &[String]) -> Outcome {
    let ci = std::env::var("CI").is_ok_and(|value| value == "true" || value == "1");
    let options = parse(args)?;
    let root = command::root();
    let version = version(&root)?;
    let changes = notes::of_version(&files::text(&root.join("CHANGELOG.md"))?, &version)?;
    let unset = Publisher::read(&root)?.unset();
    if ci && !unset.is_empty() {
        return Err(format!("release: {}", unset.join("; ")));
    }
    if options.twice.is_some() {
        committed(&root)?;
    }
    let consent = if ci { Consent::Given } else { Consent::Unknown };
    let consent = options.consent.unwrap_or(consent);
    setup::prepare(consent, &setup::PORTS[5..6])?;
    let out = root.join(format!("target/release-{version}"));
    let _ = std::fs::remove_dir_all(&out);
    std::fs::create_dir_all(&out).map_err(|error| format!("{}: {error}", out.display()))?;
    let epoch = systems::epoch(&root)?;
    let tools = dist::Tools::make()?;
    let mut left_out = Vec::new();
    let is_chosen = |system: &&System| {
        options
            .only
            .as_deref()
            .is_none_or(|name| name == system.name)
    };
    let mut helper = None;
    for system in SYSTEMS.iter().filter(is_chosen) {
        if let Some(missing) = system.missing() {
            left_out.push(format!("{}: {missing}", system.name));
            continue;
        }
        let programs = step(&format!("building for {}", system.target), || {
            tools.build(&root, system)
        })?;
        // The first is that of this machine, unless another one alone is wanted.
        if helper.is_none() {
            helper = Some(dist::runs_here(system, &programs)?);
        }
        let helper = helper.as_deref().unwrap_or(&programs);
        step(&format!("packing for {}", system.target), || {
            contents::pack(&root, &out, &version, system, &programs, helper, epoch)
        })?;
    }
    files::write(&out.join("RELEASE_NOTES.md"), changes.as_bytes())?;
    files::write(&out.join("BUILD.txt"), tools.facts(&root)?.as_bytes())?;
    if options.only.is_none() {
        contents::pack_data(&root, &out, &version, epoch)?;
    }
    if !options.no_wheels {
        wheels(&root, &out, &version, consent, options.only.as_deref())?;
    }
    if options.image {
        let programs = dist::folder(&root, &SYSTEMS[0]);
        image::make(&image::Options::of_release(programs), &out)?;
    }
    command::succeed("the sums", packer("sums").arg(&out))?;
    print!("{}", files::text(&out.join("SHA256SUMS"))?);
    left_out
        .iter()
        .for_each(|line| println!("left out: {line}"));
    unset.iter().for_each(|line| println!("not set: {line}"));
    println!("{}", out.display());
    match &options.twice {
        Some(folder) => twice(&root, folder, &out, &options),
        None if ci && !left_out.is_empty() => {
            Err("release: with CI=true nothing may be left out".to_owned())
        }
        None => Ok(0),
    }
}

fn parse(args: &[String]) -> Result<Options, String> {
    let mut options = Options::default();
    let mut args = args.iter();
    while let Some(arg) = args.next() {
        match arg.as_str() {
            "--no-wheels" => options.no_wheels = true,
            "--image" => options.image = true,
            "--yes" => options.consent = Some(Consent::Given),
            "--no-install" => options.consent = Some(Consent::Refused),
            "--only" => {
                let name = args
                    .next()
                    .filter(|name| SYSTEMS.iter().any(|system| system.name == *name));
                let name = name.ok_or("release: --only takes x86-64, aarch64 or windows")?;
                options.only = Some(name.clone());
            }
            "--twice" => {
                let folder = args.next().filter(|folder| !folder.is_empty());
                options.twice = Some(folder.ok_or("release: --twice needs a folder")?.into());
            }
            other => return Err(crate::unknown_argument("release", other)),
        }
    }
    match options.image && options.only.as_deref().is_some_and(|name| name != "x86-64") {
        true => Err("release: --image needs the programs for x86-64".to_owned()),
        false => Ok(options),
    }
}

/// Builds the wheels, and copies them to the rest, with an inventory for each system.
fn wheels(
    root: &Path,
    out: &Path,
    version: &str,
    consent: Consent,
    only: Option<&str>,
) -> Result<(), String> {
    python::release_wheels(consent, only)?;
    for system in SYSTEMS
        .iter()
        .filter(|system| only.is_none_or(|only| only == system.name))
    {
        let name = format!("hlx-{version}-python-{}", contents::named(system));
        let mut sbom = packer("sbom");
        sbom.arg("--root").arg(root);
        sbom.args(["--package", "hlx-python", "--target", system.target]);
        sbom.arg("--out").arg(out.join(format!("{name}.cdx.json")));
        command::succeed("the inventory", &mut sbom)?;
    }
    let wheels = out.join("wheels");
    std::fs::create_dir_all(&wheels).map_err(|error| format!("{}: {error}", wheels.display()))?;
    for file in files::under(&root.join("target/wheels"), &["whl", "gz"])? {
        let name = file.file_name().unwrap_or_default();
        files::write(&wheels.join(name), &files::bytes(&file)?)?;
    }
    Ok(())
}

/// Refuses files that differ from the commit, which the other folder has.
fn committed(root: &Path) -> Result<(), String> {
    let mut status = Command::new("git");
    status.args(["status", "--porcelain"]).current_dir(root);
    let changed = command::capture("git status", &mut status)?;
    match changed.lines().next() {
        Some(first) => Err(format!(
            "release: --twice compares commits, and this folder has changes that are not committed, such as `{}`",
            first.trim()
        )),
        None => Ok(()),
    }
}

/// Builds the archives in another folder, and compares their digests.
fn twice(root: &Path, folder: &Path, out: &Path, options: &Options) -> Outcome {
    let mut clone = Command::new("git");
    clone.args(["clone", "--quiet"]).arg(root).arg(folder);
    command::succeed("git clone", &mut clone)?;
    let mut again = command::cargo(&["xtask", "release", "--no-wheels", "--no-install"]);
    again.current_dir(folder).env_remove("CARGO_TARGET_DIR");
    if let Some(only) = &options.only {
        again.args(["--only", only]);
    }
    step("the same in another folder", || {
        command::succeed("the second build", &mut again)
    })?;
    let name = out.file_name().unwrap_or_default();
    let sums = |out: &Path| files::text(&out.join("SHA256SUMS"));
    let second = sums(&folder.join("target").join(name))?;
    let first = sums(out)?;
    let differed = differing(&first, &second);
    if differed.is_empty() {
        println!(
            "{} files: the same digests in {}",
            second.lines().count(),
            folder.display()
        );
        return Ok(0);
    }
    Err(format!(
        "release: other digests in {}:\n{}",
        folder.display(),
        differed.join("\n")
    ))
}

/// The lines that one of two lists of sums lacks. The wheels and the image are in the first alone.
fn differing<'a>(first: &'a str, second: &'a str) -> Vec<&'a str> {
    let is_first_alone = |line: &&str| {
        ["wheels/", "-python-", ".oci."]
            .iter()
            .any(|part| line.contains(part))
    };
    let changed = second
        .lines()
        .filter(|line| !first.lines().any(|other| other == *line));
    let missing = first
        .lines()
        .filter(|line| !is_first_alone(line) && !second.lines().any(|other| other == *line));
    changed.chain(missing).collect()
}

#[cfg(test)]
mod tests {
    use super::{Options, differing, parse};
    use crate::command;
    use crate::setup::Consent;

    #[test]
    fn sums_that_differ_and_files_that_are_missing_are_found() {
        let first =
            "1 a.tar.gz\n2 a.zip\n3 wheels/a.whl\n4 hlx-1-python-x.cdx.json\n5 hlx.oci.tar\n";
        assert_eq!(differing(first, "2 a.zip\n1 a.tar.gz\n"), [""; 0]);
        assert_eq!(differing(first, "1 a.tar.gz\n"), ["2 a.zip"]);
        assert_eq!(
            differing(first, "9 a.tar.gz\n2 a.zip\n"),
            ["9 a.tar.gz", "1 a.tar.gz"]
        );
    }

    #[test]
    fn the_arguments_are_read() {
        let read = |line: &str| parse(&command::words(line));
        assert_eq!(read(""), Ok(Options::default()));
        let all = Options {
            only: Some("x86-64".to_owned()),
            no_wheels: true,
            image: true,
            twice: Some("/x".into()),
            consent: Some(Consent::Refused),
        };
        assert_eq!(
            read("--only x86-64 --no-wheels --image --twice /x --no-install"),
            Ok(all)
        );
        for wrong in [
            "--only amiga",
            "--only",
            "--twice",
            "--only windows --image",
            "now",
        ] {
            assert!(read(wrong).is_err(), "{wrong}");
        }
    }
}
