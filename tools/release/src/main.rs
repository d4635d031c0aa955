//! `release`: packs what xtask has built, with the same bytes whoever packs it, and writes docs/devices.md.
//!
//! Every file in an archive has one owner, one time and a mode that the list of files names; files come in the order of
//! their names. So two builds of equal programs give equal archives.

mod crates;
mod deb;
mod devices;
mod entries;
mod hashed;
mod image;
mod licences;
mod sbom;
mod sums;
mod tarball;
mod unpack;
mod zipped;

use std::io::Write as _;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context as _, Result};
use clap::{Parser, Subcommand};

#[derive(Parser)]
#[command(name = "release", version, max_term_width = 100)]
struct Arguments {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Subcommand)]
enum Verb {
    /// Pack files as NAME.tar.gz or NAME.zip, as the ending says.
    Pack {
        /// A list of files: lines of MODE, name in the archive, and file, with tabs between.
        list: PathBuf,
        /// The archive.
        out: PathBuf,
        /// The time of all files, in seconds since 1970.
        #[arg(long)]
        epoch: u64,
    },
    /// Pack files as a package of Debian.
    Deb {
        /// A list of files, as for `pack`.
        list: PathBuf,
        /// The package.
        out: PathBuf,
        /// Its control file, without Installed-Size.
        #[arg(long)]
        control: PathBuf,
        /// The time of all files, in seconds since 1970.
        #[arg(long)]
        epoch: u64,
    },
    /// Make an OCI archive of a root file system and the files above it.
    Image(image::Arguments),
    /// Unpack the root file system of an OCI archive, and check its digests.
    Unpack {
        /// The archive.
        archive: PathBuf,
        /// The folder, which is empty or not there.
        folder: PathBuf,
    },
    /// Write what a program is made of as a CycloneDX document.
    Sbom(sbom::Arguments),
    /// Write the licences of all crates that a program is made of.
    Licences(crates::Arguments),
    /// Write SHA256SUMS of the files in a folder.
    Sums {
        /// The folder.
        folder: PathBuf,
    },
    /// Write docs/devices.md from benches/devices.
    Devices {
        /// The repository.
        root: PathBuf,
        /// Write nothing; print a line if the page is out of date.
        #[arg(long)]
        check: bool,
    },
}

fn main() -> ExitCode {
    match run(Arguments::parse().verb) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            // Nobody is left to be told where standard error is closed.
            let _ = writeln!(std::io::stderr(), "error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(verb: Verb) -> Result<()> {
    match verb {
        Verb::Pack { list, out, epoch } => {
            let entries = entries::read(&list)?;
            let packed = match out.extension().is_some_and(|ending| ending == "zip") {
                true => zipped::write(&entries, &out, epoch),
                false => tarball::write_gz(&entries, &out, epoch),
            };
            packed.with_context(|| out.display().to_string())
        }
        Verb::Deb {
            list,
            out,
            control,
            epoch,
        } => deb::write(&entries::read(&list)?, &control, &out, epoch),
        Verb::Image(arguments) => image::run(&arguments),
        Verb::Unpack { archive, folder } => unpack::run(&archive, &folder),
        Verb::Sbom(arguments) => sbom::run(&arguments),
        Verb::Licences(arguments) => licences::run(&arguments),
        Verb::Sums { folder } => sums::run(&folder),
        Verb::Devices { root, check } => devices::run(&root, check),
    }
}
