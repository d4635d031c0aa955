//! Tar files with the same bytes whoever makes them: names sorted, one time, root as owner.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::Path;

use anyhow::{Context as _, Result};
use flate2::{Compression, GzBuilder};
use tar::{Builder, EntryType, Header};

use crate::entries::Entry;

/// Writes a compressed tar file.
///
/// # Errors
/// A file that cannot be read, or the archive that cannot be written.
pub fn write_gz(entries: &[Entry], out: &Path, epoch: u64) -> Result<()> {
    let file = BufWriter::new(File::create(out)?);
    let mut gz = GzBuilder::new().write(file, Compression::default());
    write(entries, &mut gz, epoch)?;
    gz.finish()?.flush()?;
    Ok(())
}

/// Writes a tar file of entries and of the folders that they lie in.
///
/// # Errors
/// A file that cannot be read, or the writer's.
pub fn write(entries: &[Entry], out: impl Write, epoch: u64) -> Result<()> {
    let mut builder = Builder::new(out);
    let mut made: Vec<&str> = Vec::new();
    for entry in entries {
        for folder in entry.folders() {
            if !made.contains(&folder) {
                made.push(folder);
                let mut header = header(EntryType::Directory, 0o755, 0, epoch)?;
                builder.append_data(&mut header, format!("{folder}/"), &[][..])?;
            }
        }
        let bytes = entry.bytes()?;
        let mut header = header(EntryType::Regular, entry.mode, bytes.len() as u64, epoch)?;
        builder
            .append_data(&mut header, &entry.name, &bytes[..])
            .with_context(|| entry.name.clone())?;
    }
    builder.into_inner()?.flush()?;
    Ok(())
}

/// Appends bytes as a file.
///
/// # Errors
/// The writer's.
pub fn append(
    builder: &mut Builder<impl Write>,
    name: &str,
    bytes: &[u8],
    epoch: u64,
) -> Result<()> {
    let mut header = header(EntryType::Regular, 0o644, bytes.len() as u64, epoch)?;
    builder.append_data(&mut header, name, bytes)?;
    Ok(())
}

/// The header of a file of root.
///
/// # Errors
/// None for these names.
pub fn header(kind: EntryType, mode: u32, size: u64, epoch: u64) -> Result<Header> {
    let mut header = Header::new_gnu();
    header.set_entry_type(kind);
    header.set_mode(mode);
    header.set_size(size);
    header.set_mtime(epoch);
    header.set_uid(0);
    header.set_gid(0);
    header.set_username("root")?;
    header.set_groupname("root")?;
    Ok(header)
}

#[cfg(test)]
mod tests {
    use super::write;
    use crate::entries::Entry;

    #[test]
    fn the_bytes_depend_on_names_modes_and_contents_alone() {
        let folder = std::env::temp_dir().join(format!("release-tar-{}", std::process::id()));
        std::fs::create_dir_all(&folder).expect("made");
        let pack = |file: &str, text: &str, mode: u32| {
            let source = folder.join(file);
            std::fs::write(&source, text).expect("written");
            let entry = Entry {
                mode,
                name: "bin/hlx".to_owned(),
                source,
            };
            let mut out = Vec::new();
            write(&[entry], &mut out, 1_700_000_000).expect("packed");
            out
        };
        let first = pack("one", "text", 0o755);
        assert_eq!(first, pack("two", "text", 0o755));
        assert_ne!(first, pack("three", "texts", 0o755));
        assert_ne!(first, pack("one", "text", 0o644));
        let mut archive = tar::Archive::new(&first[..]);
        let names: Vec<_> = archive
            .entries()
            .expect("entries")
            .map(|entry| {
                let entry = entry.expect("an entry");
                (
                    entry.path().expect("a name").display().to_string(),
                    entry.header().mode().ok(),
                )
            })
            .collect();
        assert_eq!(
            names,
            [
                ("bin/".to_owned(), Some(0o755)),
                ("bin/hlx".to_owned(), Some(0o755))
            ]
        );
        std::fs::remove_dir_all(&folder).expect("removed");
    }
}
