//! The files of a corpus: folders and globs resolved, in an order that the machine does not change.

use std::fs;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::{Result, TextError};

/// What a file holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum SourceFormat {
    /// Plain text.
    Text,
    /// A JSON object a line: `text`, or `input` and `output`, or `messages`.
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
/// argument's files are sorted by their paths.
///
/// # Errors
/// An argument that names no file, in one line.
pub(crate) fn resolve(arguments: &[PathBuf], format: Option<SourceFormat>) -> Result<Vec<Source>> {
    let mut sources = Vec::new();
    for argument in arguments {
        let mut files = Vec::new();
        if argument.exists() {
            add(argument, &mut files)?;
        } else {
            add_glob(argument, &mut files)?;
        }
        if files.is_empty() {
            return Err(TextError::file(argument, "holds no file"));
        }
        files.sort();
        for path in files {
            let found = fs::metadata(&path).map_err(|error| TextError::file(&path, error))?;
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

fn add(path: &Path, files: &mut Vec<PathBuf>) -> Result<()> {
    if !path.is_dir() {
        files.push(path.to_owned());
        return Ok(());
    }
    let failed = |error: std::io::Error| TextError::file(path, error);
    for entry in fs::read_dir(path).map_err(failed)? {
        let entry = entry.map_err(failed)?;
        let hidden = entry.file_name().to_string_lossy().starts_with('.');
        if !hidden {
            add(&entry.path(), files)?;
        }
    }
    Ok(())
}

fn add_glob(argument: &Path, files: &mut Vec<PathBuf>) -> Result<()> {
    let text = argument.to_string_lossy();
    if !text.contains(['*', '?', '[']) {
        return Err(TextError::file(argument, "is not there"));
    }
    let found = glob::glob(&text).map_err(|error| TextError::file(argument, error))?;
    for path in found {
        let path = path.map_err(|error| TextError::file(argument, error))?;
        add(&path, files)?;
    }
    Ok(())
}

/// The format that a name tells, endings of compression left out.
fn format_of(path: &Path) -> SourceFormat {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let name = name.to_lowercase();
    let stem = [".gz", ".zst"]
        .iter()
        .find_map(|ending| name.strip_suffix(ending));
    let stem = stem.unwrap_or(&name);
    let ends = |endings: &[&str]| endings.iter().any(|ending| stem.ends_with(ending));
    if ends(&[".jsonl", ".ndjson", ".json"]) {
        SourceFormat::Jsonl
    } else if ends(&[".bin"]) {
        SourceFormat::Tokens
    } else {
        SourceFormat::Text
    }
}
