//! The package of Debian: programs, manual, completions, configurations.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::listing::{List, add_data, file_name};
use crate::packer::packer;
use crate::publisher::Publisher;
use crate::{command, files};

/// The manual, the completions and the licences of the crates, made before anything is packed.
pub struct Made {
    pub manual: Vec<PathBuf>,
    pub completions: PathBuf,
    pub licences: PathBuf,
}

/// Packs `hlx_VERSION_ARCHITECTURE.deb`.
pub fn pack(
    root: &Path,
    out: &Path,
    version: &str,
    architecture: &str,
    programs: &Path,
    made: &Made,
    scratch: &Path,
    epoch: u64,
) -> Result<(), String> {
    let maintainer = Publisher::read(root)?.maintainer;
    let mut list = List::default();
    list.add_programs("usr/bin/", "", programs);
    add_data(&mut list, root, "usr/share/hlx/")?;
    for page in &made.manual {
        let name = format!("{}.gz", file_name(page));
        list.add(
            "644",
            &format!("usr/share/man/man1/{name}"),
            &gzipped(page, &scratch.join(&name))?,
        );
    }
    for (file, place) in [
        ("hlx.bash", "bash-completion/completions/hlx"),
        ("_hlx", "zsh/vendor-completions/_hlx"),
        ("hlx.fish", "fish/vendor_completions.d/hlx.fish"),
    ] {
        list.add(
            "644",
            &format!("usr/share/{place}"),
            &made.completions.join(file),
        );
    }
    let copyright = scratch.join("copyright");
    files::write(&copyright, copyright_text(root)?.as_bytes())?;
    list.add("644", "usr/share/doc/hlx/copyright", &copyright);
    list.add(
        "644",
        "usr/share/doc/hlx/LICENSES-CRATES.txt.gz",
        &gzipped(&made.licences, &scratch.join("crates.gz"))?,
    );
    let changes = scratch.join("changelog");
    files::write(&changes, changelog(version, &maintainer, epoch)?.as_bytes())?;
    list.add(
        "644",
        "usr/share/doc/hlx/changelog.gz",
        &gzipped(&changes, &scratch.join("changelog.gz"))?,
    );
    let (files_list, control) = (scratch.join("deb.txt"), scratch.join("control"));
    list.write(&files_list)?;
    files::write(
        &control,
        control_text(version, architecture, &maintainer).as_bytes(),
    )?;
    let mut deb = packer("deb");
    deb.arg(&files_list)
        .arg(out.join(format!("hlx_{version}_{architecture}.deb")));
    deb.arg("--control")
        .arg(&control)
        .args(["--epoch", &epoch.to_string()]);
    command::succeed("the package", &mut deb)
}

/// Compresses a file without its name and time.
fn gzipped(file: &Path, out: &Path) -> Result<PathBuf, String> {
    let mut gzip = Command::new("gzip");
    let output = gzip.args(["-9", "-n", "-c"]).arg(file).output();
    let output = output.map_err(|error| format!("cannot run gzip: {error}"))?;
    match output.status.success() {
        true => files::write(out, &output.stdout).map(|()| out.to_owned()),
        false => Err(format!(
            "gzip: {}",
            String::from_utf8_lossy(&output.stderr).trim()
        )),
    }
}

fn control_text(version: &str, architecture: &str, maintainer: &str) -> String {
    format!(
        "Package: hlx\nVersion: {version}\nArchitecture: {architecture}\nMaintainer: {maintainer}\nSection: science\n\
         Priority: optional\nDepends: libc6 (>= 2.28)\n\
         Recommends: libvulkan1, mesa-vulkan-drivers | vulkan-icd\n\
         Description: neural networks with the same bits on any Vulkan GPU and on the CPU\n\
         \x20HLX trains, evaluates, serves and verifies models. A result depends on the\n\
         \x20inputs and their shape, and on nothing else: not on the device, the driver or\n\
         \x20the number of threads.\n"
    )
}

/// The licence of the package; those of its crates lie beside it.
fn copyright_text(root: &Path) -> Result<String, String> {
    let mit = files::text(&root.join("LICENSE-MIT"))?;
    Ok(format!(
        "HLX is licensed under MIT or, at your choice, Apache-2.0 (/usr/share/common-licenses/Apache-2.0).\n\
         The licences of the crates that the programs hold code of are in LICENSES-CRATES.txt.gz.\n\n{mit}"
    ))
}

/// The changelog in Debian's form, which names the version alone: CHANGELOG.md says what is new.
fn changelog(version: &str, maintainer: &str, epoch: u64) -> Result<String, String> {
    let mut date = Command::new("date");
    date.args(["-u", "-R", "-d", &format!("@{epoch}")])
        .env("LC_ALL", "C");
    let date = command::capture("date", &mut date)?;
    Ok(format!(
        "hlx ({version}) unstable; urgency=medium\n\n  * CHANGELOG.md of the source says what is new.\n\n \
         -- {maintainer}  {}\n",
        date.trim()
    ))
}
