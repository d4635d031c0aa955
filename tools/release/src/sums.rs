//! SHA256SUMS of a folder, as `sha256sum -c` reads it.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, ensure};

use crate::hashed::Hashed;

/// The file of digests.
pub const NAME: &str = "SHA256SUMS";

/// Writes the digests of all files in a folder and the folders in it, sorted by name.
///
/// # Errors
/// A folder without files, a file that cannot be read.
pub fn run(folder: &Path) -> Result<()> {
    let mut files = Vec::new();
    collect(folder, &mut files).with_context(|| folder.display().to_string())?;
    files.retain(|file| !file.ends_with(NAME));
    files.sort();
    ensure!(!files.is_empty(), "{}: has no file", folder.display());
    let mut text = String::new();
    for file in &files {
        let name = file.strip_prefix(folder).unwrap_or(file);
        let parts: Vec<_> = name.iter().map(|part| part.to_string_lossy()).collect();
        text += &format!("{}  {}\n", digest(file)?, parts.join("/"));
    }
    fs::write(folder.join(NAME), text).with_context(|| NAME.to_owned())
}

fn collect(folder: &Path, files: &mut Vec<PathBuf>) -> Result<()> {
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        match path.is_dir() {
            true => collect(&path, files)?,
            false => files.push(path),
        }
    }
    Ok(())
}

fn digest(file: &Path) -> Result<String> {
    let name = || file.display().to_string();
    let mut hashed = Hashed::new(io::sink());
    io::copy(&mut File::open(file).with_context(name)?, &mut hashed).with_context(name)?;
    Ok(hashed.finish().1)
}

#[cfg(test)]
mod tests {
    use super::{NAME, run};
    use std::fs;

    #[test]
    fn digests_are_those_of_the_files_in_order() {
        let folder = std::env::temp_dir().join(format!("release-sums-{}", std::process::id()));
        fs::create_dir_all(folder.join("a")).expect("made");
        fs::write(folder.join("b"), "abc").expect("written");
        fs::write(folder.join("a/c"), "").expect("written");
        run(&folder).expect("written");
        // A second time: the list is not its own member.
        run(&folder).expect("written");
        let text = fs::read_to_string(folder.join(NAME)).expect("read");
        let expected = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855  a/c\n\
                        ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad  b\n";
        assert_eq!(text, expected);
        fs::remove_dir_all(&folder).expect("removed");
    }
}
