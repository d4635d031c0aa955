//! The files of a corpus: folders and globs resolved, in an order that the machine does not change.

use std::collections::HashSet;
use std::fs;
use std::path::{Path, PathBuf, is_separator};

use hlx_core::files::{self, is_one_of, parent};
use serde::{Deserialize, Serialize};

use crate::{Result, TextError};

/// What a file holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum SourceFormat {
    /// Plain text.
    Text,
    /// A JSON object a line, or a list of objects: records of texts, pairs or chats.
    Jsonl,
    /// Tokens of nanoGPT or llm.c.
    Tokens,
}

/// A file of a corpus.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Source {
    pub path: PathBuf,
    pub format: SourceFormat,
    /// Bytes on disk.
    pub len: u64,
}

/// Resolves paths: files as they are, folders with everything below them but hidden files, globs. Each
/// argument's files are sorted by their paths. The folder `out` below another one is left out: it is where the
/// result is written. A link to a folder that it lies in is not followed, and a folder that several links lead to is
/// read once.
///
/// # Errors
/// An argument that names no file, in one line.
pub(crate) fn resolve(
    arguments: &[PathBuf],
    format: Option<SourceFormat>,
    out: Option<&PathBuf>,
) -> Result<Vec<Source>> {
    let mut sources = Vec::new();
    for argument in arguments {
        let mut walk = Walk::new(out);
        match argument.exists() {
            true => walk.add(argument)?,
            false => walk.add_glob(argument)?,
        }
        let mut found = walk.files;
        if found.is_empty() {
            return Err(TextError::file(argument, "holds no file"));
        }
        found.sort();
        found.dedup();
        for path in found {
            let found = files::look(&path).map_err(|error| TextError::file(&path, error))?;
            if format.is_none() && is_table(&path) {
                let reason = "is a table by its name: convert it to JSON lines, one record a line, or take it as a \
                              text (--format text)";
                return Err(TextError::file(&path, reason));
            }
            sources.push(Source {
                format: format.unwrap_or_else(|| format_of(&path)),
                len: found.len(),
                path,
            });
        }
    }
    match sources.is_empty() {
        true => Err(TextError::argument("data_prepare", "no files are named")),
        false => Ok(sources),
    }
}

/// The files of an argument, as they are found.
struct Walk<'a> {
    /// The folder of the result.
    out: &'a [PathBuf],
    files: Vec<PathBuf>,
    /// The folders that were taken whole and those that a glob has searched, behind all links. Without them
    /// links between folders would be followed as often as the system allows, and two such links 2^40 times.
    taken: HashSet<PathBuf>,
    searched: HashSet<PathBuf>,
}

impl<'a> Walk<'a> {
    fn new(out: Option<&'a PathBuf>) -> Self {
        Self {
            out: out.map_or(&[], std::slice::from_ref),
            files: Vec::new(),
            taken: HashSet::new(),
            searched: HashSet::new(),
        }
    }

    /// Takes a file, or all of a folder.
    fn add(&mut self, path: &Path) -> Result<()> {
        if !path.is_dir() {
            self.files.push(path.to_owned());
            return Ok(());
        }
        if is_one_of(path, self.out) || !self.taken.insert(real(path)?) {
            return Ok(());
        }
        for path in entries(path)? {
            let name = path.file_name().unwrap_or_default();
            if !name.to_string_lossy().starts_with('.') && !leads_up(&path) {
                self.add(&path)?;
            }
        }
        Ok(())
    }

    fn add_glob(&mut self, argument: &Path) -> Result<()> {
        let text = argument.to_string_lossy();
        if !text.contains(['*', '?', '[']) {
            return Err(TextError::file(argument, "is not there"));
        }
        let failed = |error: &dyn std::fmt::Display| TextError::file(argument, error);
        if let Some((before, _)) = text.split_once("**") {
            let pattern = glob::Pattern::new(&text).map_err(|error| failed(&error))?;
            // The folders before the first `**` may be patterns, too.
            let before = match before.trim_end_matches(is_separator) {
                "" if before.is_empty() => ".",
                "" => "/",
                before => before,
            };
            for folder in glob::glob(before).map_err(|error| failed(&error))? {
                self.search(&folder.map_err(|error| failed(&error))?, &pattern)?;
            }
            return Ok(());
        }
        for path in glob::glob(&text).map_err(|error| failed(&error))? {
            let path = path.map_err(|error| failed(&error))?;
            if !leads_up(&path) {
                self.add(&path)?;
            }
        }
        Ok(())
    }

    /// Takes what a pattern matches below a folder, at any depth.
    fn search(&mut self, folder: &Path, pattern: &glob::Pattern) -> Result<()> {
        if !folder.is_dir() || !self.searched.insert(real(folder)?) {
            return Ok(());
        }
        let options = glob::MatchOptions {
            require_literal_separator: true,
            ..Default::default()
        };
        for path in entries(folder)? {
            if leads_up(&path) {
                continue;
            }
            let path = path.strip_prefix(".").unwrap_or(&path);
            match pattern.matches_path_with(path, options) {
                true => self.add(path)?,
                false => self.search(path, pattern)?,
            }
        }
        Ok(())
    }
}

/// Whether a path is a link to a folder that it lies in.
fn leads_up(path: &Path) -> bool {
    let real = |path: &Path| fs::canonicalize(path).ok();
    match path.is_symlink() {
        true => {
            let (link, target) = (real(parent(path)), real(path));
            link.zip(target)
                .is_some_and(|(link, target)| link.starts_with(target))
        }
        false => false,
    }
}

/// A path behind all links.
fn real(path: &Path) -> Result<PathBuf> {
    fs::canonicalize(path).map_err(|error| TextError::file(path, error))
}

/// What a folder holds, by name.
fn entries(folder: &Path) -> Result<Vec<PathBuf>> {
    let failed = |error: std::io::Error| TextError::file(folder, error);
    let entries = fs::read_dir(folder).map_err(failed)?;
    let entries = entries.map(|entry| entry.map(|entry| entry.path()));
    let mut entries = entries.collect::<Result<Vec<_>, _>>().map_err(failed)?;
    entries.sort();
    Ok(entries)
}

/// The format that a name tells, endings of compression left out.
fn format_of(path: &Path) -> SourceFormat {
    if ends_with_one(path, &[".jsonl", ".ndjson", ".json"]) {
        SourceFormat::Jsonl
    } else if ends_with_one(path, &[".bin"]) {
        SourceFormat::Tokens
    } else {
        SourceFormat::Text
    }
}

/// Whether a name tells a table.
fn is_table(path: &Path) -> bool {
    ends_with_one(path, &[".csv", ".tsv"])
}

/// Whether a name has one of these endings, those of compression left out.
fn ends_with_one(path: &Path, endings: &[&str]) -> bool {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let name = name.to_lowercase();
    let stem = [".gz", ".zst"]
        .iter()
        .find_map(|ending| name.strip_suffix(ending));
    let stem = stem.unwrap_or(&name);
    endings.iter().any(|ending| stem.ends_with(ending))
}

#[cfg(all(test, unix))]
mod tests;
