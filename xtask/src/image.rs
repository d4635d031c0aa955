//! `cargo xtask image`: the container image of docker/Dockerfile, made without a registry, and tried here.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::command::{self, step};
use crate::dist::{Tools, version};
use crate::listing::{List, add_data};
use crate::packer::packer;
use crate::systems::{SYSTEMS, epoch};
use crate::{Outcome, files, sha256};

pub const HELP: &str = "\
cargo xtask image [--programs DIR] [--mirror URL] [--no-try] [--only-try]

Makes the image of docker/Dockerfile from Debian's packages, where no registry of images can be reached:
mmdebstrap unpacks docker/packages.txt and what they need into a root file system (root, the network, some
400 MB), and HLX's files go above it, as an OCI archive in target/image, with an inventory (CycloneDX) of
the crates and Debian's packages in it. Load it with
`podman load -i FILE` or `skopeo copy oci-archive:FILE docker-daemon:hlx:latest`.

Then unpacks the archive, checks its digests, and runs in it, in namespaces of its own without a network:
`hlx doctor --quick`, which names what the container lacks; a short training; a short benchmark with its
page; and `hlx serve`, which answers a request.

  --programs DIR   take hlx and hlx-bench from there; built as for a release if left out
  --mirror URL     http://deb.debian.org/debian by default
  --no-try         make it only
  --only-try       try the one that is there";

/// The suite of the Dockerfile's last stage: its Mesa knows newer GPUs than that of Debian 12.
const SUITE: &str = "trixie";

/// Debian's own images leave these out, too.
const EXCLUDED: [&str; 4] = [
    "path-exclude=/usr/share/man/*",
    "path-exclude=/usr/share/locale/*",
    "path-exclude=/usr/share/doc/*",
    "path-include=/usr/share/doc/*/copyright",
];

/// What an image is made of.
#[derive(Debug, PartialEq)]
pub struct Options {
    programs: Option<PathBuf>,
    mirror: String,
    make: bool,
    try_it: bool,
}

impl Options {
    fn new() -> Self {
        Self {
            programs: None,
            mirror: "http://deb.debian.org/debian".to_owned(),
            make: true,
            try_it: true,
        }
    }

    /// Those of a release, whose programs are built.
    pub fn of_release(programs: PathBuf) -> Self {
        Self {
            programs: Some(programs),
            ..Self::new()
        }
    }
}

pub fn run(args: &[String]) -> Outcome {
    let options = parse(args)?;
    make(&options, &output("")).map(|()| 0)
}

fn parse(args: &[String]) -> Result<Options, String> {
    let mut options = Options::new();
    let mut args = args.iter();
    while let Some(arg) = args.next() {
        let mut value = || {
            let value = args.next().filter(|value| !value.is_empty());
            value.ok_or_else(|| format!("image: {arg} needs a value"))
        };
        match arg.as_str() {
            "--programs" => options.programs = Some(value()?.into()),
            "--mirror" => options.mirror.clone_from(value()?),
            "--no-try" => options.try_it = false,
            "--only-try" => options.make = false,
            other => return Err(crate::unknown_argument("image", other)),
        }
    }
    match options.make || options.try_it {
        true => Ok(options),
        false => Err("image: --no-try and --only-try leave nothing to do".to_owned()),
    }
}

fn output(name: &str) -> PathBuf {
    command::root().join("target/image").join(name)
}

/// Makes the image in a folder, and tries it.
pub fn make(options: &Options, folder: &Path) -> Result<(), String> {
    let root = command::root();
    let scratch = output("");
    std::fs::create_dir_all(&scratch).map_err(|error| format!("{}: {error}", scratch.display()))?;
    let version = version(&root)?;
    let archive = folder.join(format!("hlx-{version}-linux-amd64.oci.tar"));
    if options.make {
        let programs = match &options.programs {
            Some(programs) => programs.clone(),
            None => step("building the programs", || {
                Tools::make()?.build(&root, &SYSTEMS[0])
            })?,
        };
        let epoch = epoch(&root)?;
        let base = step("Debian's packages", || base(&root, &options.mirror, epoch))?;
        step("the archive", || {
            archived(&root, &base, &programs, &version, &archive, epoch)?;
            let mut sbom = packer("sbom");
            sbom.arg("--root").arg(&root);
            sbom.args(["--target", SYSTEMS[0].target, "--base"]);
            sbom.arg(&base).arg("--out").arg(inventory(&archive));
            command::succeed("the inventory", &mut sbom)
        })?;
        println!("{}", archive.display());
    }
    match options.try_it {
        true => step("trying the image", || try_it(&archive)),
        false => Ok(()),
    }
}

/// The file of what an archive is made of: HLX's crates and Debian's packages.
fn inventory(archive: &Path) -> PathBuf {
    archive.with_extension("cdx.json")
}

/// The packages that docker/packages.txt names.
fn packages(root: &Path) -> Result<Vec<String>, String> {
    let text = files::text(&root.join("docker/packages.txt"))?;
    Ok(text.split_whitespace().map(str::to_owned).collect())
}

/// The root file system as a tar file; made anew when the packages or the time change.
fn base(root: &Path, mirror: &str, epoch: u64) -> Result<PathBuf, String> {
    if !command::on_path("mmdebstrap") {
        return Err("image: mmdebstrap is not installed (apt-get install mmdebstrap)".to_owned());
    }
    let packages = packages(root)?.join(",");
    let made_of = format!("{SUITE} {mirror} {packages} {epoch} {}", EXCLUDED.join(" "));
    let digest = sha256::hex(made_of.as_bytes());
    let file = output(&format!("debian-{}.tar", &digest[..16]));
    if file.is_file() {
        return Ok(file);
    }
    let partial = file.with_extension("partial.tar");
    let mut mmdebstrap = Command::new("mmdebstrap");
    mmdebstrap.args(["--quiet", "--variant=essential", "--format=tar"]);
    mmdebstrap.arg(format!("--include={packages}"));
    mmdebstrap.args(EXCLUDED.map(|rule| format!("--dpkgopt={rule}")));
    mmdebstrap.arg(SUITE).arg(&partial).arg(mirror);
    mmdebstrap.env("SOURCE_DATE_EPOCH", epoch.to_string());
    command::capture("mmdebstrap", &mut mmdebstrap)?;
    let moved = std::fs::rename(&partial, &file);
    moved.map_err(|error| format!("{}: {error}", file.display()))?;
    Ok(file)
}

/// HLX's files above the root file system, as the Dockerfile copies them.
fn archived(
    root: &Path,
    base: &Path,
    programs: &Path,
    version: &str,
    archive: &Path,
    epoch: u64,
) -> Result<(), String> {
    let mut list = List::default();
    list.add_programs("usr/bin/", "", programs);
    list.add(
        "755",
        "usr/bin/hlx-benchmark",
        &root.join("docker/benchmark.sh"),
    );
    list.add(
        "644",
        "usr/share/hlx/packages.txt",
        &root.join("docker/packages.txt"),
    );
    add_data(&mut list, root, "usr/share/hlx/")?;
    for licence in ["LICENSE-MIT", "LICENSE-APACHE"] {
        list.add(
            "644",
            &format!("usr/share/doc/hlx/{licence}"),
            &root.join(licence),
        );
    }
    let file = output("list.txt");
    list.write(&file)?;
    let mut date = Command::new("date");
    date.args(["-u", "-d", &format!("@{epoch}"), "+%Y-%m-%dT%H:%M:%SZ"]);
    let created = command::capture("date", &mut date)?;
    let mut image = packer("image");
    image.arg("--base").arg(base).arg("--list").arg(&file);
    image.arg("--config").arg(root.join("docker/image.json"));
    image.args([
        "--architecture",
        "amd64",
        "--name",
        &format!("hlx:{version}"),
    ]);
    image.args(["--epoch", &epoch.to_string(), "--created", created.trim()]);
    command::succeed("the archive", image.arg("--out").arg(archive))
}

/// What docker/try.sh runs in the image.
const TRIES: [&str; 4] = ["doctor", "train", "benchmark", "serve"];

/// Runs the image in namespaces of its own.
fn try_it(archive: &Path) -> Result<(), String> {
    let root = output("root");
    if root.exists() {
        std::fs::remove_dir_all(&root).map_err(|error| format!("{}: {error}", root.display()))?;
    }
    let mut unpack = packer("unpack");
    step("unpacking", || {
        command::succeed("unpack", unpack.arg(archive).arg(&root))
    })?;
    let work = root.join("work");
    std::fs::create_dir_all(&work).map_err(|error| format!("{}: {error}", work.display()))?;
    let script = files::bytes(&command::root().join("docker/try.sh"))?;
    files::write(&work.join("try.sh"), &script)?;
    for name in TRIES {
        let text = step(&format!("{name} in the image"), || inside(&root, name))?;
        print!("{text}");
    }
    std::fs::remove_dir_all(&root).map_err(|error| format!("{}: {error}", root.display()))
}

/// Namespaces of its own without a network, a few devices, and the variables that the image sets.
const INSIDE: &str = r#"
set -e
ip link set lo up
mount -t proc proc "$1/proc"
mount -t sysfs -o ro sysfs "$1/sys"
mount -t tmpfs tmpfs "$1/tmp"
mount -t tmpfs -o mode=755 tmpfs "$1/dev"
mkdir "$1/dev/shm"
ln -s /proc/self/fd "$1/dev/fd"
for device in null zero full random urandom; do
    touch "$1/dev/$device"
    mount --bind "/dev/$device" "$1/dev/$device"
done
exec env -i PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin container=oci HOME=/tmp \
    chroot "$1" bash /work/try.sh "$2"
"#;

/// Runs a part of docker/try.sh in the image.
fn inside(root: &Path, name: &str) -> Result<String, String> {
    let mut shell = Command::new("unshare");
    shell.args(["--mount", "--pid", "--fork", "--net", "--ipc", "--uts"]);
    shell.args(["sh", "-c", INSIDE, "sh"]).arg(root).arg(name);
    command::capture(&format!("{name} in the image"), &mut shell)
}

#[cfg(test)]
mod tests {
    use super::{Options, SUITE, packages, parse};
    use crate::{command, files};

    #[test]
    fn the_arguments_are_read() {
        let read = |line: &str| parse(&command::words(line));
        assert_eq!(read(""), Ok(Options::new()));
        let own = read("--programs /x --mirror http://m --no-try").expect("fine");
        assert_eq!(
            (own.programs, own.mirror.as_str(), own.try_it),
            (Some("/x".into()), "http://m", false)
        );
        for wrong in ["--programs", "--no-try --only-try", "--push"] {
            assert!(read(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn the_dockerfile_has_the_packages_and_settings_of_this_image() {
        let root = command::root();
        let text = |name: &str| files::text(&root.join("docker").join(name)).expect("read");
        let packages = packages(&root).expect("packages");
        assert!(packages.is_sorted() && packages.iter().any(|name| name == "mesa-vulkan-drivers"));
        let dockerfile = text("Dockerfile");
        assert!(dockerfile.contains(&format!("\nFROM debian:{SUITE}-slim\n")));
        // The list is the only place that names packages.
        let installs: Vec<&str> = dockerfile
            .lines()
            .filter(|line| line.contains("apt-get install"))
            .collect();
        assert_eq!(installs.len(), 1, "{installs:?}");
        assert!(
            installs[0].contains("xargs -a /usr/share/hlx/packages.txt"),
            "{installs:?}"
        );
        for name in &packages {
            assert!(!installs[0].contains(name.as_str()), "{name}");
        }
        let image = text("image.json");
        let settings = image
            .split('[')
            .nth(1)
            .and_then(|rest| rest.split(']').next())
            .expect("Env");
        for setting in settings
            .split('"')
            .skip(1)
            .step_by(2)
            .filter(|setting| !setting.starts_with("PATH="))
        {
            assert!(dockerfile.contains(setting), "{setting}");
        }
        for same in ["\"hlx\", \"doctor\", \"--quick\"", "/work", "8000"] {
            assert!(dockerfile.contains(same) && image.contains(same), "{same}");
        }
    }
}
