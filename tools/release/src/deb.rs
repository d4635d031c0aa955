//! Packages of Debian (deb(5)): an ar file of a control archive and a data archive.

use std::fs;
use std::path::Path;

use anyhow::{Context as _, Result, ensure};
use flate2::{Compression, GzBuilder};
use tar::Builder;

use crate::entries::Entry;
use crate::tarball;

/// Writes a package of files, whose names are places in the root file system, with a control file.
///
/// # Errors
/// A file that cannot be read, a control file without the fields that dpkg needs, a package that cannot be written.
pub fn write(entries: &[Entry], control: &Path, out: &Path, epoch: u64) -> Result<()> {
    let name = || control.display().to_string();
    let control = fs::read_to_string(control).with_context(name)?;
    for field in [
        "Package",
        "Version",
        "Architecture",
        "Maintainer",
        "Description",
    ] {
        let has = control
            .lines()
            .any(|line| line.starts_with(&format!("{field}: ")));
        ensure!(has, "{}: has no field {field}", name());
    }
    let sizes = entries
        .iter()
        .map(|entry| Ok(entry.bytes()?.len().div_ceil(1024)));
    let kib = sizes.sum::<Result<usize>>()?;
    let control = installed_size(&control, kib);
    let mut data = compressed();
    tarball::write(entries, &mut data, epoch)?;
    let mut builder = Builder::new(compressed());
    tarball::append(&mut builder, "control", control.as_bytes(), epoch)?;
    let members: [(&str, &[u8]); 3] = [
        ("debian-binary", b"2.0\n"),
        ("control.tar.gz", &builder.into_inner()?.finish()?),
        ("data.tar.gz", &data.finish()?),
    ];
    fs::write(out, ar(&members, epoch)).with_context(|| out.display().to_string())
}

fn compressed() -> flate2::write::GzEncoder<Vec<u8>> {
    GzBuilder::new().write(Vec::new(), Compression::default())
}

/// Puts the size behind the field Architecture: a description, which has lines of its own, comes last.
fn installed_size(control: &str, kib: usize) -> String {
    let line = |line: &str| match line.starts_with("Architecture: ") {
        true => format!("{line}\nInstalled-Size: {kib}\n"),
        false => format!("{line}\n"),
    };
    control.lines().map(line).collect()
}

/// An ar file of members of root.
fn ar(members: &[(&str, &[u8])], epoch: u64) -> Vec<u8> {
    let mut out = b"!<arch>\n".to_vec();
    for (name, bytes) in members {
        let length = bytes.len();
        out.extend(
            format!(
                "{name:<16}{epoch:<12}{:<6}{:<6}{:<8}{length:<10}`\n",
                0, 0, "100644"
            )
            .bytes(),
        );
        out.extend(*bytes);
        // Members begin at even places.
        if length % 2 == 1 {
            out.push(b'\n');
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::{ar, installed_size};

    #[test]
    fn members_have_headers_of_60_bytes_and_begin_at_even_places() {
        let bytes = ar(
            &[("debian-binary", b"2.0\n"), ("odd", b"abc"), ("last", b"")],
            1_700_000_000,
        );
        assert_eq!(&bytes[..8], b"!<arch>\n");
        assert_eq!(&bytes[8..24], b"debian-binary   ");
        assert_eq!(&bytes[8 + 58..8 + 60], b"`\n");
        assert_eq!(&bytes[72..75], b"odd");
        assert_eq!(bytes.len(), 8 + 60 + 4 + 60 + 3 + 1 + 60);
    }

    #[test]
    fn the_size_stands_before_the_description() {
        let control = installed_size("Package: hlx\nArchitecture: amd64\nDescription: a\n b\n", 7);
        assert_eq!(
            control,
            "Package: hlx\nArchitecture: amd64\nInstalled-Size: 7\nDescription: a\n b\n"
        );
    }
}
