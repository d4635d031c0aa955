//! `cargo xtask debian`: ranks under the MPI libraries of another Debian, made by debootstrap.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::command::{self, step};
use crate::mpi::{LAUNCHERS, Launcher};
use crate::{Outcome, unknown_argument};

pub const HELP: &str = "\
cargo xtask debian [--suite NAME] [--mirror URL]

Makes a small Debian with Open MPI and MPICH in target/debian-NAME (debootstrap; needs root and the
network; some 400 MB), unless it is there, builds hlx, and trains eight steps in it alone and as 1, 2 and
4 ranks under each library, on the CPU device: the digests must be equal.

  --suite NAME   trixie (default: Debian 13, with Open MPI 5 and MPICH 4.2), bookworm, ...
  --mirror URL   http://deb.debian.org/debian by default

Exit status: 0 one digest, 1 another one or something is missing.";

const COUNTS: [&str; 3] = ["1", "2", "4"];
/// The run, in the Debian: drawn pairs, so that it needs no file besides.
const RUN: &str = "/hlx train /config.toml --device cpu --set train.max_steps=8 --set data.count=400 \
                   --set train.log_every=4";

pub fn run(args: &[String]) -> Outcome {
    let (mut suite, mut mirror) = ("trixie", "http://deb.debian.org/debian");
    let mut rest = args.iter();
    while let Some(argument) = rest.next() {
        let value = rest.next().map(String::as_str);
        match (argument.as_str(), value) {
            ("--suite", Some(value)) => suite = value,
            ("--mirror", Some(value)) => mirror = value,
            ("--suite" | "--mirror", None) => {
                return Err(format!("debian: {argument} needs a value"));
            }
            (other, _) => return Err(unknown_argument("debian", other)),
        }
    }
    let is_name = |text: &str| !text.is_empty() && text.bytes().all(|c| c.is_ascii_alphanumeric());
    if !is_name(suite) {
        return Err(format!(
            "debian: --suite {suite}: expected a name such as trixie"
        ));
    }
    let root = command::root().join(format!("target/debian-{suite}"));
    step(&format!("Debian {suite}"), || make(&root, suite, mirror))?;
    command::build("hlx", &["-p", "hlx-cli"])?;
    copy(&command::built("hlx"), &root.join("hlx"))?;
    let config = command::root().join("configs/ascii-pairs.toml");
    copy(&config, &root.join("config.toml"))?;
    compare(&root)
}

fn copy(from: &Path, to: &Path) -> Result<(), String> {
    let copied = std::fs::copy(from, to);
    copied
        .map(drop)
        .map_err(|error| format!("{}: {error}", to.display()))
}

/// Makes the Debian, unless it is there whole.
fn make(root: &Path, suite: &str, mirror: &str) -> Result<(), String> {
    let is_there = |launcher: &Launcher| root.join("usr/bin").join(launcher.program).exists();
    if LAUNCHERS.iter().all(is_there) {
        return Ok(());
    }
    if !command::on_path("debootstrap") {
        return Err(
            "debian: debootstrap is not installed (apt-get install debootstrap)".to_owned(),
        );
    }
    let mut debootstrap = Command::new("debootstrap");
    debootstrap.args(["--variant=minbase", "--include=openmpi-bin,mpich", suite]);
    command::capture("debootstrap", debootstrap.arg(root).arg(mirror)).map(drop)
}

/// A command line in the Debian, with mounts of its own.
fn inside(root: &Path, line: &str) -> Result<String, String> {
    let root = root.display();
    let script = format!(
        "mount -t proc proc {root}/proc && mount --rbind /dev {root}/dev && exec chroot {root} sh -c '{line}'"
    );
    let mut shell = Command::new("unshare");
    command::capture(line, shell.args(["--mount", "sh", "-c", &script]))
}

/// The digests that a run has printed.
fn digests(output: &str) -> Vec<&str> {
    let is_digest = |line: &&str| line.starts_with("parameters ") || line.starts_with("optimizer ");
    output.lines().filter(is_digest).collect()
}

fn compare(root: &Path) -> Outcome {
    let out = PathBuf::from("/runs");
    let line = |prefix: &str, name: &str| format!("{prefix} {RUN} --out {}/{name}", out.display());
    inside(root, &format!("rm -rf {}", out.display()))?;
    let alone = inside(root, &line("", "alone"))?;
    let expected = digests(&alone);
    if expected.len() != 2 {
        return Err(format!("debian: a run printed no digests:\n{alone}"));
    }
    println!("{:32} {}", "alone", expected.join("  "));
    let mut wrong = 0;
    for Launcher {
        program: launcher,
        options,
        ..
    } in LAUNCHERS
    {
        let version = inside(root, &format!("{launcher} --version"))?;
        println!(
            "{launcher}: {}",
            version.lines().take(2).collect::<Vec<_>>().join(" ").trim()
        );
        for n in COUNTS {
            let prefix = format!("{launcher} {} -n {n}", options.join(" "));
            let found = inside(root, &line(&prefix, &format!("{launcher}-{n}")))?;
            let is_same = digests(&found) == expected;
            wrong += usize::from(!is_same);
            let verdict = if is_same {
                "the same digests"
            } else {
                "OTHER DIGESTS"
            };
            println!("{:32} {verdict}", format!("{launcher}, {n} ranks"));
        }
    }
    Ok(u8::from(wrong > 0))
}
