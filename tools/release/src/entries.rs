//! The list of files that an archive is made of.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, bail, ensure};

/// A file of an archive.
#[derive(Clone, Debug, PartialEq)]
pub struct Entry {
    /// Its mode, as in 0o755.
    pub mode: u32,
    /// Its name in the archive, with `/` between its parts and none before them.
    pub name: String,
    /// Where its bytes are.
    pub source: PathBuf,
}

impl Entry {
    /// Its bytes.
    ///
    /// # Errors
    /// The file and the system's message.
    pub fn bytes(&self) -> Result<Vec<u8>> {
        fs::read(&self.source).with_context(|| self.source.display().to_string())
    }

    /// The folders above it, the outermost first.
    pub fn folders(&self) -> impl Iterator<Item = &str> {
        self.name.match_indices('/').map(|(at, _)| &self.name[..at])
    }
}

/// Reads a list, sorts it by name, and checks it.
///
/// # Errors
/// The line that is malformed, a name that leads out of the archive, a name that is there twice.
pub fn read(list: &Path) -> Result<Vec<Entry>> {
    let text = fs::read_to_string(list).with_context(|| list.display().to_string())?;
    parse(&text).with_context(|| list.display().to_string())
}

fn parse(text: &str) -> Result<Vec<Entry>> {
    let lines = text.lines().filter(|line| !line.is_empty());
    let mut entries = lines.map(parse_line).collect::<Result<Vec<_>>>()?;
    entries.sort_by(|a, b| a.name.cmp(&b.name));
    if let Some(twice) = entries.windows(2).find(|pair| pair[0].name == pair[1].name) {
        bail!("{} is there twice", twice[0].name);
    }
    ensure!(!entries.is_empty(), "names no file");
    Ok(entries)
}

fn parse_line(line: &str) -> Result<Entry> {
    let parts: Vec<&str> = line.split('\t').collect();
    let [mode, name, source] = parts[..] else {
        bail!("{line}: expected MODE, name and file with tabs between");
    };
    let mode =
        u32::from_str_radix(mode, 8).with_context(|| format!("{line}: {mode} is no mode"))?;
    let is_part = |part: &str| !part.is_empty() && part != "." && part != "..";
    ensure!(
        name.split('/').all(is_part) && mode <= 0o777,
        "{line}: is no name in an archive, or no mode"
    );
    Ok(Entry {
        mode,
        name: name.to_owned(),
        source: source.into(),
    })
}

#[cfg(test)]
mod tests {
    use super::parse;

    #[test]
    fn a_list_is_sorted_by_name() {
        let entries = parse("644\tb/c\t/x\n755\ta\t/y\n").expect("a list");
        assert_eq!((entries[0].mode, entries[0].name.as_str()), (0o755, "a"));
        assert_eq!(entries[1].folders().collect::<Vec<_>>(), ["b"]);
    }

    #[test]
    fn names_that_lead_out_and_malformed_lines_are_refused() {
        for wrong in [
            "644\t../a\t/x",
            "644\t/a\t/x",
            "644\ta",
            "9\ta\t/x",
            "7777\ta\t/x",
            "",
            "644\ta\t/x\n755\ta\t/y",
        ] {
            assert!(parse(wrong).is_err(), "{wrong}");
        }
    }
}
